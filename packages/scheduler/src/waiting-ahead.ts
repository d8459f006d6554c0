import type { ModelConfig } from '@nereid/config';
import { levelOf, queuePolicies } from './queue-policy.ts';
import type { QueuedRequest, WaitingLevel } from './schedule.ts';

/** So many levels are looked at for one request: a config may have very many. */
const LEVELS_MAX = 64;

/**
 * Of the `waiting` requests that one finds which arrives now, those that go before it: in its level or a higher one. All
 * of them where there are no levels, or more busy ones than are looked at. Steps of sequences are not told apart.
 */
export type WaitingAhead = (
  request: Pick<QueuedRequest, 'priority'>,
  waiting: number,
  levels: Iterable<WaitingLevel> | undefined,
) => number;

export function waitingAhead({ schedulingChoice: choice }: Pick<ModelConfig, 'schedulingChoice'>): WaitingAhead {
  const policies = choice.case === 'dynamicBatching' ? queuePolicies(choice.value) : undefined;
  if (policies === undefined || policies.levels === 0) return (_, waiting) => waiting;
  return ({ priority }, waiting, levels = []) => {
    if (waiting === 0) return 0;
    const own = levelOf(policies, priority);
    let ahead = 0;
    let seen = 0;
    for (const { level, waiting: count, delayed } of levels) {
      if (level > own) return ahead;
      if (++seen > LEVELS_MAX) return waiting;
      // Those that are delayed stand behind the others of their level.
      ahead += level === own ? count - delayed : count;
    }
    return ahead;
  };
}
