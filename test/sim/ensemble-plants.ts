/** Wrong rules for ensembles, made from the right ones by what is told to them and what is heard of them. */
import {
  createEnsembleRun,
  createStepGate,
  type EnsembleDecision,
  type EnsembleEvent,
  type EnsembleRun,
} from '@nereid/scheduler';
import type { Piece } from './ensemble-checks.ts';
import { type EnsembleRules, type LiveCall, RIGHT_RULES } from './ensemble-play.ts';

type Event = EnsembleEvent<Piece>;
type Decision = EnsembleDecision<Piece>;

/** `decide` sees each event with what was decided upon it; `hear` may tell the rule something else. */
function altered(
  alter: () => {
    readonly hear?: (event: Event) => readonly Event[];
    readonly decide?: (decisions: readonly Decision[], event: Event) => readonly Decision[];
  },
): EnsembleRules {
  return {
    ...RIGHT_RULES,
    createRun(plan): EnsembleRun<Piece> {
      const rule = createEnsembleRun<Piece>(plan, { id: '' });
      const { hear = (event) => [event], decide = (decisions) => decisions } = alter();
      return {
        get over() {
          return rule.over;
        },
        step: (event) =>
          decide(
            hear(event).flatMap((heard) => rule.step(heard)),
            event,
          ),
      };
    },
  };
}

const each = (change: (decision: Decision) => readonly Decision[]) =>
  altered(() => ({ decide: (decisions) => decisions.flatMap(change) }));

/** Answers belong to the calls of their step in the order in which they come, as where values of a tensor are counted. */
const countsIterations = altered(() => {
  const lines = new Map<number, number[]>();
  const steps = new Map<number, number>();
  return {
    hear(event) {
      if (event.type !== 'answer' && event.type !== 'failed') return [event];
      const line = lines.get(steps.get(event.call) ?? -1) ?? [];
      const [call = event.call] = event.type === 'answer' && !event.last ? [event.call] : line.splice(0, 1);
      return [{ ...event, call }];
    },
    decide(decisions) {
      for (const decision of decisions) {
        if (decision.type !== 'call') continue;
        steps.set(decision.call, decision.step);
        const line = lines.get(decision.step) ?? [];
        lines.set(decision.step, [...line, decision.call]);
      }
      return decisions;
    },
  };
});

/** An error is heard of only when something else of the run is. */
const hearsErrorsLate = altered(() => {
  const kept: Event[] = [];
  let running = 0;
  return {
    hear(event) {
      if (event.type === 'failed' && --running > 0) {
        kept.push(event);
        return [];
      }
      if (event.type === 'answer' && event.last) running--;
      return [event, ...kept.splice(0)];
    },
    decide(decisions) {
      running += decisions.filter(({ type }) => type === 'call').length;
      return decisions;
    },
  };
});

const lastErrorDecides = altered(() => {
  let last: string | undefined;
  return {
    hear(event) {
      if (event.type === 'failed') last = `in ensemble 'e', ${event.error.message}`;
      return [event];
    },
    decide: (decisions) =>
      decisions.map((decision) =>
        decision.type === 'fail' && last !== undefined
          ? { ...decision, error: { ...decision.error, message: last } }
          : decision,
      ),
  };
});

const failsAtOnce = altered(() => {
  let failed = false;
  return {
    decide(decisions, event) {
      if (event.type !== 'failed' || failed) return decisions.filter(({ type }) => type !== 'fail' || !failed);
      failed = true;
      const error = { ...event.error, message: `in ensemble 'e', ${event.error.message}` };
      return [{ type: 'fail', error }, ...decisions.filter(({ type }) => type !== 'fail')];
    },
  };
});

/** A tensor goes with the first call that takes it. */
const releasesEarly = altered(() => {
  const gone = new Set<Piece>();
  return {
    decide(decisions) {
      const kept = decisions.flatMap((decision): Decision[] =>
        decision.type === 'release'
          ? [{ ...decision, tensors: decision.tensors.filter((piece) => !gone.has(piece)) }]
          : [decision],
      );
      const taken = decisions.flatMap((decision) => (decision.type === 'call' ? [...decision.inputs.values()] : []));
      for (const piece of taken) gone.add(piece);
      return [...kept, { type: 'release', tensors: [...new Set(taken)] }];
    },
  };
});

/** Everything goes at the end. */
const releasesLate = altered(() => {
  const tensors: Piece[] = [];
  return {
    decide(decisions) {
      for (const decision of decisions) if (decision.type === 'release') tensors.push(...decision.tensors);
      const kept = decisions.filter(({ type }) => type !== 'release');
      const ends = kept.some((decision) => decision.type === 'fail' || (decision.type === 'respond' && decision.last));
      return ends ? [...kept, { type: 'release', tensors: [...tensors] }] : kept;
    },
  };
});

const leftOutIsNoAnswer = altered(() => ({
  hear: (event) =>
    event.type === 'answer' && event.outputs?.size === 0 ? [{ ...event, outputs: undefined }] : [event],
}));

/** A step whose outputs were not asked for is not called, though others need them. */
const prunesWhatIsNeeded: EnsembleRules = {
  ...RIGHT_RULES,
  plan(signature, options) {
    const asked = ({ outputs }: (typeof signature.steps)[number]) =>
      outputs.some(({ tensor }) => options.requested.includes(tensor));
    const unfed = signature.steps.map((step) => (asked(step) ? step : { ...step, inputs: [], outputs: [] }));
    return RIGHT_RULES.plan({ ...signature, steps: unfed }, options);
  },
};

const ignoresOrder: EnsembleRules = {
  ...RIGHT_RULES,
  plan: (signature, { name, requested, decoupled }) => RIGHT_RULES.plan(signature, { name, requested, decoupled }),
};

const gateIsWide: EnsembleRules = {
  ...RIGHT_RULES,
  createGate: ({ inflight_max, wait_max_us }) =>
    createStepGate({ inflight_max: inflight_max === 0 ? 0 : inflight_max + 1, wait_max_us }),
};

/** The gate lets the last that came in first. */
const gateLastFirst: EnsembleRules = {
  ...RIGHT_RULES,
  createGate(options) {
    const gate = createStepGate<LiveCall>(options);
    const line: LiveCall[] = [];
    const names = new Map<LiveCall, LiveCall>();
    return {
      ...gate,
      enter(call, nowUs) {
        if (gate.enter(call, nowUs)) return true;
        line.push(call);
        names.set(call, call);
        return false;
      },
      leave: () => (gate.leave() === undefined ? undefined : line.pop()),
      withdraw(call) {
        const at = line.indexOf(call);
        if (at >= 0) line.splice(at, 1);
        return gate.withdraw(call);
      },
    };
  },
};

/** A place of the gate is not given to anybody else. */
const gateKeepsPlaces: EnsembleRules = {
  ...RIGHT_RULES,
  createGate: (options) => ({ ...createStepGate<LiveCall>(options), leave: () => undefined }),
};

export const ENSEMBLE_PLANTS = {
  'values of a tensor are counted': countsIterations,
  'a step is called twice': each((decision) => (decision.type === 'call' ? [decision, decision] : [decision])),
  'calls go on after an error': hearsErrorsLate,
  'the last error decides': lastErrorDecides,
  'fails while calls run': failsAtOnce,
  'running calls are not cancelled': each((decision) => (decision.type === 'cancelCall' ? [] : [decision])),
  'a tensor goes with its first call': releasesEarly,
  'tensors go at the end': releasesLate,
  'a tensor goes twice': each((decision) => (decision.type === 'release' ? [decision, decision] : [decision])),
  'an answer without outputs is none': leftOutIsNoAnswer,
  'a step is pruned that others need': prunesWhatIsNeeded,
  'the order of calls is ignored': ignoresOrder,
  'the end is not told': each((decision) =>
    decision.type === 'respond' ? [{ ...decision, last: false }] : [decision],
  ),
  'one call too many': gateIsWide,
  'the last that came is let in first': gateLastFirst,
  'places of a gate are lost': gateKeepsPlaces,
} as const satisfies Readonly<Record<string, EnsembleRules>>;

export type EnsemblePlant = keyof typeof ENSEMBLE_PLANTS;
