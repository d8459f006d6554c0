/** CPU time and memory of processes, from /proc. */
import { readdirSync, readFileSync } from 'node:fs';

/** Of the kernel's process times. */
const TICKS_PER_S = 100;
const KIB = 1024;
/** user, nice and system of the first line of /proc/stat. */
const BUSY_FIELDS = [1, 2, 3];

/** Seconds that all processes of the machine have used so far. */
export function busySeconds() {
  const fields = readFileSync('/proc/stat', 'latin1').split('\n', 1)[0].split(/ +/);
  return BUSY_FIELDS.reduce((sum, field) => sum + Number(fields[field]), 0) / TICKS_PER_S;
}

/** Seconds that each process with its children has used so far, by the names that `pids` gives. */
export function treeSeconds(pids) {
  const ticks = (pid) => {
    const fields = processFields(pid);
    return fields === undefined ? 0 : fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  };
  return overTrees(pids, (pid) => ticks(pid) / TICKS_PER_S);
}

/** Bytes of memory that each process with its children holds now. */
export function treeResidentBytes(pids) {
  return overTrees(pids, (pid) => {
    const [, kib = '0'] = /^VmRSS:\s+(\d+) kB/m.exec(readText(`/proc/${pid}/status`) ?? '') ?? [];
    return Number(kib) * KIB;
  });
}

function overTrees(pids, read) {
  const children = new Map();
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const parent = processFields(entry)?.[1];
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), entry]);
  }
  const roots = new Set(Object.values(pids).map(String));
  const sum = (pid) =>
    (children.get(`${pid}`) ?? [])
      // One that has a name of its own is counted there.
      .filter((child) => !roots.has(child))
      .reduce((total, child) => total + sum(child), read(pid));
  return Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, sum(pid)]));
}

/** The fields of /proc/<pid>/stat after the name: state, parent, …; undefined once it has ended. */
function processFields(pid) {
  const text = readText(`/proc/${pid}/stat`);
  return text?.slice(text.lastIndexOf(')') + 2).split(' ');
}

function readText(path) {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return undefined;
  }
}
