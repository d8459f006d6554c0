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
    first: 146,
    seeds: 20,
    course: sequences(mix('storm', ['pause', 'lapse', 'stutter'], ['worker', 'coordinator']), {
      network: SLOW_NETWORK,
    }),
  },
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
    first: 31,
    seeds: 10,
    course: sequences(mix('storm', ['blip'], ['gateway']), { clients: ['pipelined'], network: SLOW_NETWORK }),
  },
  { off: 'R19', caught: ['S3'], seeds: 40, course: sequences(mix('none', []), { clients: ['pipelined'] }) },
  { off: 'R23 no retries', caught: ['S3'], seeds: 60, course: sequences(mix('storm', ['kill'], ['gateway'])) },
  { off: 'R37', caught: ['S6'], seeds: 3, course: sequences(mix('none', [])) },
];

test.each(ROWS)('without $off something is found', isMissed, RULE_TIMEOUT_MS);

const BACKSTOPS: readonly BackstopRule[] = [
  { off: 'R12', course: sequences(mix('storm', ['blip', 'kill'])) },
  { off: 'R15', course: sequences(mix('storm', ['blip', 'pause'], ['gateway', 'coordinator'])) },
  { off: 'R20', course: sequences(mix('storm', ['blip'], ['gateway'])) },
];

test.each(BACKSTOPS)('$off alone is not missed: another rule stands behind it', isBackstop, RULE_TIMEOUT_MS);
