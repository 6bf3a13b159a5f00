import { checks } from "./checks.mjs";

await checks();
postMessage("done");
