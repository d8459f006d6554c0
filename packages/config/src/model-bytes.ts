import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expandInstances } from './expand-instances.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { LIMITS } from './limits.ts';

/** Bytes of the files in a version's folder and below: about what one instance takes once it is loaded. */
export async function versionBytes(directory: string, version: string): Promise<number> {
  return folderBytes(join(directory, version), 0);
}

async function folderBytes(folder: string, depth: number): Promise<number> {
  // Deeper is a circle of links, of which the load tells.
  if (depth > LIMITS.version_folder_depth_max) return 0;
  let bytes = 0;
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const found = await stat(path);
    bytes += found.isDirectory() ? await folderBytes(path, depth + 1) : found.size;
  }
  return bytes;
}

/** Instances of a version by the device whose memory they take: `cpu`, `gpu0`, `gpu1` … */
export function instancesByDevice(config: ModelConfig): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { device } of expandInstances(config)) {
    const name = device.kind === 'gpu' ? `gpu${device.id}` : 'cpu';
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

/** What so many bytes per instance take on each device. */
export function bytesByDevice(config: ModelConfig, bytes: number): Record<string, number> {
  return Object.fromEntries([...instancesByDevice(config)].map(([device, count]) => [device, count * bytes]));
}
