/**
 * A thread beside an instance in its process, which may be inside a run for ever and see nothing: kills
 * the process soon after its worker is gone.
 */
import { Socket } from 'node:net';
import { LIFE_FD } from './process-line.ts';

/** In which the process may end by itself. */
const ORPHAN_GRACE_MS = 500;

const life = new Socket({ fd: LIFE_FD, readable: true, writable: false });
life.on('error', () => {});
life.on('close', () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), ORPHAN_GRACE_MS));
life.resume();
