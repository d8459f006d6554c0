import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import type { Deployment } from '../deployment.mjs';

/** Resident memory of each process. */
export function memoryKib({ processes }: Deployment): readonly number[] {
  return processes.map(({ process: { pid } }) => {
    const status = `/proc/${pid}/status`;
    if (!existsSync(status)) return Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)]).toString());
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(status, 'utf8'))?.[1]);
  });
}

/** By how much the process that grew most has grown. */
export function memoryGrowthKib(served: Deployment, before: readonly number[]): number {
  return Math.max(...memoryKib(served).map((kib, index) => kib - (before[index] ?? 0)));
}
