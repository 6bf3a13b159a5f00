// Runs a program of WebAssembly that imports nothing. It can say no more than a number: 0 is good.
import { readFile } from "node:fs/promises";

const { instance } = await WebAssembly.instantiate(await readFile(process.argv[2]), {});
const failed = instance.exports.main(0, 0);
const said = {
  0: "every codec in lanes gives what the scalar code gives",
  255: "the instruction sets are not those that were compiled in",
};
console.log(said[failed] ?? `type ${failed - 1} differs`);
process.exit(failed === 0 ? 0 : 1);
