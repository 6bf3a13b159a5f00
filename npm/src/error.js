// Errors with the details that programs need to handle them.

/** An error in a file, in its source, or in a call. */
export class GgmillError extends Error {
  constructor(kind, message, details = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "GgmillError";
    this.kind = kind;
    this.offset = details.offset;
    this.key = details.key;
    this.tensor = details.tensor;
    this.status = details.status;
  }
}
