import type { Tensor } from '@nereid/protocol';

/** So that each datatype's typed array fits onto a tensor's bytes. */
const ALIGNMENT_BYTES = 8;

/** Copies the tensors into one buffer: a cloned view would take its whole buffer along, and one given away would be gone here. */
export function compactTensors(tensors: readonly Tensor[]) {
  let size = 0;
  for (const { data } of tensors) size = aligned(size) + data.byteLength;
  const bytes = new Uint8Array(size);
  let offset = 0;
  const compact = tensors.map((tensor): Tensor => {
    offset = aligned(offset);
    bytes.set(tensor.data, offset);
    const data = bytes.subarray(offset, offset + tensor.data.byteLength);
    offset += tensor.data.byteLength;
    return { ...tensor, data };
  });
  return { compact, buffer: bytes.buffer };
}

function aligned(offset: number): number {
  return Math.ceil(offset / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
}
