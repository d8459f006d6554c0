import { randomBytes } from 'node:crypto';

/** Random numbers as an argument: seeded in simulations. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number;
}

/** mulberry32: small, fast, good enough to drive simulations. Never for secrets. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return {
    next() {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    },
  };
}

/** An id, new at each start, of a role's mailbox or (`bl`) of a process' blobs: the prefix, `-` and twelve random hex digits. */
export function newProcessId(prefix: 'gw' | 'co' | 'wk' | 'ca' | 'bl'): string {
  return `${prefix}-${randomBytes(6).toString('hex')}`;
}
