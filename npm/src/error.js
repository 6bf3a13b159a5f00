// Errors, with what a program can act on.

/** An error of this package: of a file, of its source, or of a call. */
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
