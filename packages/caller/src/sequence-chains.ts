import { type Chain, type ChainedStep, isBlank, newChain } from './sequence-chain.ts';

/** Chains without an unfinished step that are kept; one that is dropped costs its next step one `moved`. */
const IDLE_CHAINS_MAX = 4_096;

/**
 * The chains of one gateway, by model and correlation id. One with unfinished steps is *busy*, and there are no more of
 * those than requests that wait; else it is *idle*, and kept for the session that its next step names, up to a bound.
 */
export interface SequenceChains<S extends ChainedStep> {
  /** The chain of that id, from now on busy. */
  take(model: string, correlationId: bigint | string): Chain<S>;
  /** A step of it has left. */
  left(chain: Chain<S>): void;
  /** All that are kept, busy and idle. */
  readonly size: number;
}

export function createSequenceChains<S extends ChainedStep>(idle_max = IDLE_CHAINS_MAX): SequenceChains<S> {
  const busy = new Map<string, Chain<S>>();
  /** The one that was left longest ago is the first. */
  const idle = new Map<string, Chain<S>>();

  return {
    take(model, correlationId) {
      const key = keyOf(model, correlationId);
      const found = busy.get(key);
      if (found !== undefined) return found;
      const chain = idle.get(key) ?? newChain<S>(model, correlationId);
      idle.delete(key);
      busy.set(key, chain);
      return chain;
    },
    left(chain) {
      if (chain.unfinished.length > 0) return;
      const key = keyOf(chain.model, chain.correlationId);
      busy.delete(key);
      if (isBlank(chain)) return;
      idle.set(key, chain);
      for (const oldest of idle.keys()) {
        if (idle.size <= idle_max) break;
        idle.delete(oldest);
      }
    },
    get size() {
      return busy.size + idle.size;
    },
  };
}

/** Ids that are numbers and ids that are texts never meet; a model's name has no line feed. */
function keyOf(model: string, correlationId: bigint | string): string {
  return typeof correlationId === 'string' ? `${model}\n'${correlationId}` : `${model}\n${correlationId}`;
}
