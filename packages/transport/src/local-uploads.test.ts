import { expect, test } from 'vitest';
import { createLocalUploads } from './local-uploads.ts';
import { UPLOADS_BYTES_MAX, uploadsContract } from './uploads-contract.ts';

const make = () => createLocalUploads({ uploads_bytes_max: UPLOADS_BYTES_MAX });

uploadsContract('local', make);

test('what nobody needs is gone, and its room free', async () => {
  const uploads = make();
  const full = new Uint8Array(UPLOADS_BYTES_MAX);
  const name = await uploads.put(full);
  await uploads.put(full);
  await uploads.done([name]);
  expect(await uploads.get(name)).toBeDefined();
  await uploads.keep([name]);
  await uploads.done([name]);
  await uploads.release([name, 'unknown']);
  expect(await uploads.get(name)).toBeUndefined();
  expect(await uploads.put(full)).toBe(name);
});

test('what is released is there as long as somebody who put it anew needs it', async () => {
  const uploads = make();
  const name = await uploads.put(new Uint8Array(1));
  await uploads.keep([name]);
  await uploads.release([name]);
  expect(await uploads.get(name)).toBeDefined();
});
