import { readdir } from 'node:fs/promises';

/** The NVIDIA driver lists one folder per GPU here (Linux). */
const DRIVER_GPUS = '/proc/driver/nvidia/gpus';
/** A whole GPU, or a part of one (MIG), by its id. */
const BY_ID = /^(?:GPU|MIG)-/;

/**
 * GPUs that this process can use, numbered from 0 as CUDA numbers them: those that the NVIDIA driver knows, or of them
 * those that CUDA_VISIBLE_DEVICES names. 0 without a driver.
 */
export async function countGpus(visibleDevices: string | undefined, driver = DRIVER_GPUS): Promise<number> {
  let known: number;
  try {
    known = (await readdir(driver)).length;
  } catch {
    return 0;
  }
  return visibleDevices === undefined ? known : visibleGpus(visibleDevices, known);
}

/** As CUDA reads that variable: numbers or ids with commas between them, up to the first that there is not. */
function visibleGpus(text: string, known: number): number {
  const seen = new Set<string>();
  for (const name of text.split(',').map((part) => part.trim())) {
    const exists = BY_ID.test(name) || (/^\d+$/.test(name) && Number(name) < known);
    if (!exists) break;
    // One that is named twice makes CUDA see none at all.
    if (seen.has(name)) return 0;
    seen.add(name);
  }
  return seen.size;
}
