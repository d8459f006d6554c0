/**
 * Each rule of docs/protocol.md that serves sequences, taken out, as in switches.test.ts. Which of
 * them others stand behind, and which are taken out together: docs/protocol.md, section 10.
 */
import { test } from 'vitest';
import {
  type BackstopRule,
  isBackstop,
  isMissed,
  type MissedRule,
  mix,
  RULE_TIMEOUT_MS,
  type RuleCourse,
} from './missed-rules.ts';
import { SEQUENCE_MODELS } from './sim-models.ts';
import type { Simulation } from './simulate.ts';

const SLOW_NETWORK = { slowShare: 0.15, slowUsMax: 150_000 };

const sequences =
  (course: RuleCourse, changed: Partial<Simulation> = {}): RuleCourse =>
  (seed) => ({ models: SEQUENCE_MODELS, trafficUs: 4_000_000, blobs: false, ...course(seed), ...changed });

const ROWS: readonly MissedRule[] = [
  {
    off: 'R9',
    and: ['R10'],
    caught: ['S3'],
    first: 254,
    seeds: 300,
    course: sequences(mix('storm', ['pause', 'lapse', 'stutter'], ['worker', 'coordinator']), {
      network: SLOW_NETWORK,
    }),
  },
  {
    off: 'R12',
    and: ['R15', 'low', 'R23 new ids'],
    caught: ['S3'],
    seeds: 100,
    course: sequences(mix('storm', ['blip', 'pause', 'kill'], ['gateway']), { network: SLOW_NETWORK }),
  },
  { off: 'R10', caught: ['S6'], seeds: 5, course: sequences(mix('storm', ['pause', 'lapse', 'stutter'], ['worker'])) },
  { off: 'R13', caught: ['S2', 'L1'], seeds: 20, course: sequences(mix('none', [])) },
  {
    off: 'R14',
    caught: ['S3'],
    seeds: 20,
    course: sequences(mix('storm', ['blip', 'kill'], ['gateway', 'coordinator'])),
  },
  {
    off: 'R16',
    and: ['R17'],
    caught: ['S3'],
    first: 37,
    seeds: 40,
    course: sequences(mix('storm', ['blip'], ['gateway']), { clients: ['pipelined'], network: SLOW_NETWORK }),
  },
  { off: 'R19', caught: ['S3'], seeds: 40, course: sequences(mix('none', []), { clients: ['pipelined'] }) },
  // Its worker runs none of them, and nobody hears of it.
  { off: 'R18', caught: ['L3'], seeds: 3, course: sequences(mix('none', []), { clients: ['pipelined'] }) },
  {
    off: 'R22',
    caught: ['S3'],
    seeds: 60,
    course: sequences(mix('storm', ['kill'], ['gateway']), { clients: ['numbered'] }),
  },
  {
    off: 'R23 new ids',
    caught: ['S3'],
    seeds: 200,
    course: sequences(mix('storm', ['kill', 'pause'], ['gateway']), { network: SLOW_NETWORK }),
  },
  {
    off: 'R23 no retries',
    caught: ['S3'],
    first: 4,
    seeds: 60,
    course: sequences(mix('storm', ['kill'], ['gateway'])),
  },
  {
    off: 'R24',
    too: ['cancels'],
    caught: ['timeout', 'S6'],
    first: 24,
    seeds: 20,
    course: sequences(mix('storm', ['blip'], ['gateway']), { sizes: { gateway: 2, coordinator: 1, worker: 1 } }),
  },
  { off: 'R37', caught: ['S6'], seeds: 3, course: sequences(mix('none', [])) },
];

test.each(ROWS)('without $off something is found', isMissed, RULE_TIMEOUT_MS);

const BACKSTOPS: readonly BackstopRule[] = [
  { off: 'R12', course: sequences(mix('storm', ['blip', 'kill'])) },
  { off: 'R15', course: sequences(mix('storm', ['blip', 'pause'], ['gateway', 'coordinator'])) },
  {
    off: 'R16',
    first: 32,
    course: sequences(mix('storm', ['blip'], ['gateway']), { clients: ['pipelined'], network: SLOW_NETWORK }),
  },
  { off: 'R20', course: sequences(mix('storm', ['blip'], ['gateway'])) },
  { off: 'R38', course: sequences(mix('storm', ['leave'], ['worker'])) },
  {
    off: 'low',
    first: 11,
    course: sequences(mix('storm', ['blip', 'pause'], ['gateway', 'coordinator']), { network: SLOW_NETWORK }),
  },
];

test.each(BACKSTOPS)('$off alone is not missed: another rule stands behind it', isBackstop, RULE_TIMEOUT_MS);
