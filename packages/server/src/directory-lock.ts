import { randomBytes } from 'node:crypto';
import { mkdir, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isRunning, type ProcessIdentity, pidOf, processIdentity } from './process-identity.ts';

/** A later claim that sees ours withdraws; only one that clocks have put in the wrong order stays. */
const LATER_CLAIM_WAIT_MS = 500;
const LATER_CLAIM_LOOK_MS = 20;
const WALL_DIGITS = 14;

export type LockResult =
  | { readonly ok: true; readonly release: () => Promise<void> }
  | { readonly ok: false; readonly pid: number };

interface Claim {
  readonly file: string;
  readonly holder: ProcessIdentity;
}

/**
 * Locks by a folder of claims: an empty file each, named `<time>.<pid>.<start>.<boot>.<random>`.
 * A process puts its claim there and then looks: it holds the lock once it sees no other claim of a
 * process that runs. Of two at the same time at least one sees the other, so never both hold it. A
 * name is never used twice, so that removing the claim of a process that is gone cannot remove a new
 * one, and an empty file has no half-written state.
 */
export async function takeLock(folder: string): Promise<LockResult> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const own = claimName();
  await (await open(join(folder, own), 'wx', 0o600)).close();
  const release = () => rm(join(folder, own), { force: true });
  try {
    for (let waitedMs = 0; ; waitedMs += LATER_CLAIM_LOOK_MS) {
      const others = (await liveClaims(folder)).filter(({ file }) => file !== own);
      const [first] = others;
      if (first === undefined) return { ok: true, release };
      if (first.file < own || waitedMs >= LATER_CLAIM_WAIT_MS) {
        await release();
        return { ok: false, pid: pidOf(first.holder) };
      }
      await sleep(LATER_CLAIM_LOOK_MS);
    }
  } catch (failure) {
    await release();
    throw failure;
  }
}

function claimName(): string {
  const identity = processIdentity(process.pid) ?? `${process.pid}.-.-`;
  return `${String(Date.now()).padStart(WALL_DIGITS, '0')}.${identity}.${randomBytes(4).toString('hex')}`;
}

/** Those whose process runs, the earliest first. Removes the others. */
async function liveClaims(folder: string): Promise<readonly Claim[]> {
  const live: Claim[] = [];
  for (const file of (await readdir(folder)).sort()) {
    const holder = /^\d+\.(\d+\.[\d-]+\.[\da-f-]+)\.[\da-f]+$/.exec(file)?.[1];
    if (holder === undefined) continue;
    if (isRunning(holder)) live.push({ file, holder });
    else await rm(join(folder, file), { force: true });
  }
  return live;
}
