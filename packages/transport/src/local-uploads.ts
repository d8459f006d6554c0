import { type Uploads, uploadName, uploadsFull } from './uploads.ts';

interface Upload {
  readonly bytes: Uint8Array;
  /** Who has put it and is not done. */
  puts: number;
  kept: boolean;
}

/** In the memory of one process. */
export function createLocalUploads(limits: { readonly uploads_bytes_max: number }): Uploads {
  const uploads = new Map<string, Upload>();
  let held = 0;

  const drop = (name: string, change: (upload: Upload) => void) => {
    const upload = uploads.get(name);
    if (upload === undefined) return;
    change(upload);
    if (upload.puts > 0 || upload.kept) return;
    uploads.delete(name);
    held -= upload.bytes.byteLength;
  };

  return {
    async put(bytes) {
      const name = uploadName(bytes);
      const known = uploads.get(name);
      if (known !== undefined) {
        known.puts++;
        return name;
      }
      if (held + bytes.byteLength > limits.uploads_bytes_max) {
        throw uploadsFull(bytes.byteLength, limits.uploads_bytes_max);
      }
      // Its own: what came with others in one body would stay whole.
      uploads.set(name, { bytes: Uint8Array.from(bytes), puts: 1, kept: false });
      held += bytes.byteLength;
      return name;
    },
    async done(names) {
      for (const name of names) drop(name, (upload) => void upload.puts--);
    },
    async keep(names) {
      for (const name of names) {
        const upload = uploads.get(name);
        if (upload !== undefined) upload.kept = true;
      }
    },
    async release(names) {
      for (const name of names) {
        drop(name, (upload) => {
          upload.kept = false;
        });
      }
    },
    get: async (name) => uploads.get(name)?.bytes,
  };
}
