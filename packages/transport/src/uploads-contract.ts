/** The suite that every store of uploads passes. */
import { expect, test } from 'vitest';
import { type Uploads, uploadName } from './uploads.ts';

export const UPLOADS_BYTES_MAX = 100;

const bytes = (size: number, fill = 7) => new Uint8Array(size).fill(fill);

/** `make` gives one with room for UPLOADS_BYTES_MAX. */
export function uploadsContract(name: string, make: () => Uploads): void {
  test(`${name}: what is put is had by its hash, and only that`, async () => {
    const uploads = make();
    const put = await uploads.put(bytes(10));
    expect(put).toBe(uploadName(bytes(10)));
    expect(new Uint8Array((await uploads.get(put)) ?? [])).toEqual(bytes(10));
    expect(await uploads.put(bytes(10))).toBe(put);
    expect(await uploads.get(uploadName(bytes(11)))).toBeUndefined();
    expect(await uploads.put(bytes(0))).toBe(uploadName(bytes(0)));
  });

  test(`${name}: what is kept stays when who put it is done`, async () => {
    const uploads = make();
    const put = await uploads.put(bytes(10));
    await uploads.keep([put, uploadName(bytes(11))]);
    await uploads.done([put]);
    expect(await uploads.get(put)).toBeDefined();
    await uploads.keep([]);
  });

  test(`${name}: is bounded, and the same twice takes no more room`, async () => {
    const uploads = make();
    await uploads.put(bytes(60, 1));
    await uploads.put(bytes(40, 2));
    await uploads.put(bytes(60, 1));
    await expect(uploads.put(bytes(1))).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  });
}
