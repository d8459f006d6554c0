import { readdir } from 'node:fs/promises';

/** The NVIDIA driver lists one folder per GPU here (Linux). */
const DRIVER_GPUS = '/proc/driver/nvidia/gpus';

/** GPUs that this machine's NVIDIA driver knows; 0 without a driver. */
export async function countGpus(): Promise<number> {
  try {
    return (await readdir(DRIVER_GPUS)).length;
  } catch {
    return 0;
  }
}
