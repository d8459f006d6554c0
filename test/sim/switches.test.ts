/**
 * Each rule of docs/protocol.md that serves requests without a sequence, taken out: the check that
 * its row names must fail within so many seeds. With the rule in, that seed passes.
 *
 * Some rules stand behind another, which is out in both runs: R2 and R7 save what is lost with an
 * owner's connection where the gateway's sweep does not; the tie of R3 decides only where an owner
 * goes on after its lease (R5). Others only stand behind what is caught here, or save time: taken out
 * alone they are not missed.
 */
import { test } from 'vitest';
import { type BackstopRule, isBackstop, isMissed, type MissedRule, mix, RULE_TIMEOUT_MS } from './missed-rules.ts';
import { equalEpochs } from './plans.ts';
import { MIXES } from './sim-mixes.ts';
import { LIMITED_MODELS, STREAM_TRAFFIC } from './sim-models.ts';

const ROWS: readonly MissedRule[] = [
  { off: 'R1', caught: ['S1', 'S2', 'L1'], first: 3, seeds: 20, course: mix('storm', ['kill'], ['gateway']) },
  {
    off: 'R2',
    too: ['R8 sweep'],
    caught: ['L3'],
    first: 5,
    seeds: 40,
    course: mix('single', ['blip'], ['coordinator']),
  },
  {
    off: 'R3',
    caught: ['S4'],
    first: 5,
    seeds: 40,
    course: mix('storm', ['partition', 'pause', 'stutter'], ['coordinator']),
  },
  {
    off: 'R3 tie',
    too: ['R5'],
    caught: ['S4'],
    first: 12,
    seeds: 40,
    course: (seed) => ({
      ...mix('storm', [])(),
      sizes: { gateway: 1 + (seed % 3), coordinator: 1, worker: 1 + (seed % 4) },
      network: { noticeLossShare: 1 },
      plan: equalEpochs,
    }),
  },
  {
    off: 'R7',
    too: ['R8 sweep'],
    caught: ['L3'],
    first: 5,
    seeds: 40,
    course: mix('single', ['blip'], ['coordinator']),
  },
  { off: 'R8 sweep', caught: ['L3'], first: 37, seeds: 150, course: mix('single', ['blip'], ['gateway']) },
  { off: 'R25', caught: ['L3'], first: 13, seeds: 30, course: mix('single', ['blip'], ['gateway']) },
  {
    off: 'R27',
    caught: ['S2'],
    first: 3,
    seeds: 5,
    course: () => ({ ...mix('storm', ['blip', 'pause', 'lapse'], ['worker'])(), traffic: STREAM_TRAFFIC }),
  },
  { off: 'R28', caught: ['S6', 'L1'], seeds: 20, course: mix('storm', ['blip'], ['coordinator', 'worker']) },
  {
    off: 'R29',
    caught: ['L3'],
    first: 2,
    seeds: 40,
    course: () => ({ ...mix('single', ['evict'])(), blobs: true }),
  },
  {
    off: 'claims end',
    caught: ['S6'],
    first: 3,
    seeds: 20,
    course: () => ({ ...mix('storm', ['kill'], ['worker'])(), models: LIMITED_MODELS }),
  },
  { off: 'R36', caught: ['S6'], seeds: 5, course: mix('storm', ['kill'], ['gateway', 'worker']) },
];

test.each(ROWS)('without $off something is found', isMissed, RULE_TIMEOUT_MS);

const BACKSTOPS: readonly BackstopRule[] = [
  {
    off: 'R4',
    course: () => ({
      ...mix('storm', ['lapse'], ['coordinator'])(),
      sizes: { gateway: 1, coordinator: 3, worker: 2 },
      network: { noticeLossShare: 1 },
    }),
  },
  { off: 'R5', course: mix('storm', ['lapse', 'blip'], ['coordinator']) },
  { off: 'R6', course: mix('storm', ['wipe', 'rollback', 'failover']) },
  { off: 'R9', course: () => ({ mix: MIXES.storm }) },
  { off: 'R10', course: mix('storm', ['pause', 'lapse'], ['worker']) },
  { off: 'R11', course: mix('storm', ['wipe', 'rollback', 'failover']) },
  { off: 'R24', first: 2, course: () => ({ mix: MIXES.storm, msLeft: 500 }) },
  { off: 'R26', course: () => ({ mix: MIXES.storm }) },
  { off: 'R30', course: () => ({ mix: MIXES.storm, blobs: true }) },
  { off: 'epoch memory', course: mix('storm', ['wipe', 'rollback', 'failover']) },
];

test.each(BACKSTOPS)('$off alone is not missed: another rule stands behind it', isBackstop, RULE_TIMEOUT_MS);
