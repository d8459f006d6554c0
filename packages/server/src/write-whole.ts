import { randomBytes } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';

/** Writes a private file so that at any time, also after a power cut, there is the old one or the new one, never a part. */
export async function writeWhole(file: string, text: string): Promise<void> {
  const part = `${file}.${randomBytes(4).toString('hex')}`;
  try {
    const handle = await open(part, 'wx', 0o600);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(part, file);
  } catch (failure) {
    await rm(part, { force: true });
    throw failure;
  }
}
