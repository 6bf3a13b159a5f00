// What programs do with the declarations; compiled, and not run.

import { open, setWasm, vet, GgmillError, type Model, type Value, type Verdict } from "../../src/index.js";
import {
  GGMLQuantizationType,
  GGUFValueType,
  buildGgufHeader,
  gguf,
  ggufAllShards,
  type GGUFParseOutput,
} from "../../src/compat.js";

export async function native(file: File): Promise<number> {
  setWasm({ reader: new URL("https://example.org/reader.wasm") });
  const model: Model = await open(file, { damaged: true });
  const value: Value | undefined = model.metadata.get("general.name");
  if (typeof value === "string") value.length;
  const values: Float32Array = (await model.tensor("w")?.values({ start: 0, end: 4 })) ?? new Float32Array();
  const { files } = await model.check({ profile: "spec", select: ["GG13"] });
  const { estimates } = await model.estimate({ context: 4096, fit: [24e9] });
  const { count, tokens } = await model.tokenize("Hello", { addSpecial: false });
  const text: string = await model.detokenize(tokens.map(({ id }) => id), { showSpecial: true });
  const { ids = [], segments } = await model.renderTemplate({
    messages: [{ role: "user", content: text, tool_calls: [{ name: "f" }] }],
    tools: [{ type: "function" }],
    addGenerationPrompt: true,
    variables: { enable_thinking: false },
    date: new Date(0),
  });
  if (ids.length + segments.length + count === 0) return 0;
  const meant: string | undefined = await model.meantKey("general.licence");
  if (meant !== undefined) meant.length;
  const patch = await model.edit({ set: { "general.name": "x", n: { type: "u32", value: 1 } } }, { inPlace: true });
  const blob: Blob = patch.applyTo(file);
  await open([file, blob, { read: async () => new Uint8Array() }]).catch((error: unknown) => {
    if (error instanceof GgmillError && error.kind === "denied") error.status?.toFixed();
  });
  // @ts-expect-error: there is no such option
  await open(file, { other: true });
  const { safe, reasons }: Verdict = await vet([file], { headers: {} });
  if (!safe) return reasons[0].advisories.map(({ id }) => id).length;
  // @ts-expect-error: damaged files have a verdict
  await vet(file, { damaged: true });
  return values.length + (files[0]?.errors ?? 0) + (estimates[0]?.total ?? 0);
}

export async function compatible(url: string, file: Blob): Promise<bigint> {
  const plain: GGUFParseOutput = await gguf(url);
  const architecture: string | undefined = plain.metadata["general.architecture"];
  const loose = (await gguf(url, { allowLocalFile: true })) as GGUFParseOutput<{ strict: false }>;
  loose.metadata["dummy.1"];
  const { typedMetadata, parameterCount, tensorInfos, littleEndian, tensorInfoByteRange } = await gguf(url, {
    typedMetadata: true,
    computeParametersCount: true,
    fetch,
  });
  const isText: boolean = typedMetadata["general.name"]?.type === GGUFValueType.STRING;
  const types: GGMLQuantizationType[] = tensorInfos.map(({ dtype }) => dtype);
  const header: Blob = await buildGgufHeader(file, typedMetadata, { littleEndian, tensorInfoByteRange });
  const { shards, urls } = await ggufAllShards(url, { parallelDownloads: 4 });
  return BigInt(parameterCount + shards.length + urls.length + types.length + header.size + Number(isText) + (architecture?.length ?? 0));
}
