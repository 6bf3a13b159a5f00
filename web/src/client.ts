// Calls to the worker, which has the files open and does the work.

import type { Answer, Api } from "./protocol.js";

const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
const waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
let last = 0;

worker.addEventListener("message", ({ data }: MessageEvent<Answer>) => {
  const call = waiting.get(data.id);
  waiting.delete(data.id);
  if (call === undefined) return;
  if ("error" in data) call.reject(new Error(data.error.message));
  else call.resolve(data.result as never);
});
worker.addEventListener("error", (event) => {
  const error = new Error(`the worker failed: ${event.message || "its program could not be loaded"}`);
  for (const { reject } of waiting.values()) reject(error);
  waiting.clear();
});

/** Calls a function of the worker. */
export function call<Name extends keyof Api>(name: Name, ...args: Parameters<Api[Name]>): Promise<ReturnType<Api[Name]>> {
  const id = ++last;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    worker.postMessage({ id, name, args });
  });
}
