import { readFileSync } from 'node:fs';

/**
 * One process, told apart from a later one of the same pid: `<pid>.<start>.<boot>`, the start in
 * clock ticks since the boot and the boot by the beginning of its id (proc(5)). Where there is no
 * /proc the last two are `-` and a reused pid is not noticed.
 */
export type ProcessIdentity = string;

const UNKNOWN = '-';
/** Fields of /proc/<pid>/stat after the command, which stands in parentheses and may hold any character. */
const STATE_FIELD = 0;
const START_FIELD = 19;
/** It ran to its end and nobody has asked how: it holds nothing any more. */
const ENDED_STATES: ReadonlySet<string> = new Set(['Z', 'X']);
const BOOT_ID_LENGTH = 8;

/** The process that has this pid now; undefined where none runs. */
export function processIdentity(pid: number): ProcessIdentity | undefined {
  if (!exists(pid)) return undefined;
  const fields = statFields(pid);
  if (fields === undefined) return `${pid}.${UNKNOWN}.${UNKNOWN}`;
  if (ENDED_STATES.has(fields[STATE_FIELD] ?? '')) return undefined;
  return `${pid}.${fields[START_FIELD] ?? UNKNOWN}.${bootId()}`;
}

/** True while that very process runs; also where it cannot be told apart from another of its pid. */
export function isRunning(identity: ProcessIdentity): boolean {
  const now = processIdentity(pidOf(identity));
  return now !== undefined && (now === identity || !isCertain(now) || !isCertain(identity));
}

export function pidOf(identity: ProcessIdentity): number {
  return Number(identity.split('.')[0]);
}

/** False where only the pid is known. */
export function isCertain(identity: ProcessIdentity): boolean {
  return identity.split('.')[1] !== UNKNOWN;
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (failure) {
    // EPERM: it runs, as another user.
    return failure instanceof Error && 'code' in failure && failure.code === 'EPERM';
  }
}

function statFields(pid: number): readonly string[] | undefined {
  const text = readText(`/proc/${pid}/stat`);
  return text?.slice(text.lastIndexOf(')') + 2).split(' ');
}

function bootId(): string {
  return readText('/proc/sys/kernel/random/boot_id')?.slice(0, BOOT_ID_LENGTH) ?? UNKNOWN;
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
