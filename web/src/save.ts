// Files that the page hands out.

/** A file picker, where the browser has one. */
type Picker = (options: { suggestedName: string }) => Promise<{ createWritable(): Promise<WritableStream<Uint8Array>> }>;

/**
 * Saves a blob: as a stream to a file that is chosen, or as a download. Returns whether it was saved;
 * it is not when nothing was chosen.
 */
export async function save(blob: Blob, suggestedName: string): Promise<boolean> {
  const picker = (globalThis as { showSaveFilePicker?: Picker }).showSaveFilePicker;
  if (picker !== undefined) {
    let file;
    try {
      file = await picker({ suggestedName });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return false;
      throw error;
    }
    await blob.stream().pipeTo(await file.createWritable());
    return true;
  }
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = suggestedName;
  link.click();
  // The download has begun by then.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
  return true;
}
