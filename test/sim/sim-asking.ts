/** Requests of a simulation's clients on their way through gateways: each has one outcome, unless its gateway dies. */
import type { InferRequest, Outcome, ProcessId } from '@nereid/protocol';
import type { SimStep } from './sequence-steps.ts';
import type { SentRequest, SimChecks } from './sim-checks.ts';
import type { Member, SimCluster } from './sim-cluster.ts';
import { type SimModel, simModel } from './sim-models.ts';
import { readStream } from './sim-reader.ts';
import type { SimWorld } from './sim-world.ts';

/** A client that has waited for so long gives up: what L3 forbids after a single fault. */
export const DEADLINE_US = 8_000_000;

/** For so long a step that would fail with one before it may be answered by itself. */
const ALONE_US = 2_000_000;

/** When the client gives up. */
export interface Patience {
  /** Undefined for never. */
  readonly cancelUs: number | undefined;
  readonly deadlineUs: number | undefined;
  /** What it tells its gateway of that. */
  readonly saysUs?: number;
}

export interface AskingOptions {
  readonly world: SimWorld;
  readonly cluster: SimCluster;
  readonly checks: SimChecks;
  /** Whether a request may run into its deadline. */
  readonly lateAllowed: boolean;
  /** All that there are. */
  readonly models: readonly SimModel[];
  /** R19 off: a step goes on though one before it has failed. */
  readonly failsAlone: boolean;
}

export interface Asking {
  readonly sent: readonly SentRequest[];
  /** Requests that somebody waits for. */
  readonly waiting: ReadonlySet<SentRequest>;
  nextToken(): number;
  /** Gateways that live and know all models. */
  gateways(): readonly Member[];
  /** `patience` is asked as the gateway gets the request; `over` is told when nobody waits any more. */
  ask(
    member: Member,
    body: InferRequest,
    about: Pick<SentRequest, 'token' | 'step'>,
    patience: () => Patience,
    over?: (request: SentRequest) => void,
  ): void;
  /** R17 or R19 off: a client gets the answer to a step as it reaches the gateway. */
  early(gateway: ProcessId, token: number, outcome: Outcome): void;
}

/** True where the gateway has been told of every model, so that it knows what exists. */
export function knowsModels({ gateway }: Member, models: readonly SimModel[]): boolean {
  return models.every(({ name, versions }) => versions.every((version) => gateway?.modelReady(name, version)));
}

export function createAsking(options: AskingOptions): Asking {
  const { world, cluster, checks, lateAllowed, models } = options;
  const sent: SentRequest[] = [];
  const waiting = new Set<SentRequest>();
  const settlers = new Map<SentRequest, (outcome: Outcome) => void>();
  const known = new Set<Member>();
  let tokens = 0;

  const beLate = (request: SentRequest) => {
    request.late = true;
    request.cancelled = true;
    if (lateAllowed) return;
    const sentS = (request.sentUs / 1e6).toFixed(6);
    checks.fail(
      'L3',
      `request ${request.token} to ${request.model} at ${request.gateway}, sent at ${sentS} s, is late`,
    );
  };

  const outcomeOf = (
    { gateway }: Member,
    request: SentRequest,
    body: InferRequest,
    signal: AbortSignal,
    ms: number,
  ) => {
    if (gateway === undefined || !simModel(body.modelName).streams) return gateway?.infer(body, signal, ms);
    return readStream(request, gateway.inferStream(body, signal, ms), checks);
  };

  return {
    sent,
    waiting,
    early(gateway, token, outcome) {
      const request = [...settlers.keys()].find((asked) => asked.gateway === gateway && asked.token === token);
      if (request !== undefined) settlers.get(request)?.(outcome);
    },
    nextToken: () => ++tokens,
    gateways() {
      const gateways = cluster.living('gateway');
      for (const member of gateways) if (!known.has(member) && knowsModels(member, models)) known.add(member);
      return gateways.filter((member) => known.has(member));
    },
    ask(member, body, about, patience, over = () => {}) {
      const request: SentRequest = {
        ...about,
        model: body.modelName,
        version: body.modelVersion,
        shape: body.inputs[0]?.shape ?? [],
        gateway: member.id,
        sentUs: world.nowUs(),
        refused: false,
        cancelled: false,
        broken: false,
        late: false,
        outcome: undefined,
        answeredUs: undefined,
        fate: undefined,
      };
      sent.push(request);
      waiting.add(request);
      member.process.onKill(() => {
        // The client sees its connection end.
        request.broken = waiting.delete(request);
        if (request.broken) over(request);
      });
      member.process.at(world.nowUs(), () => {
        const leave = new AbortController();
        const giveUp = (us: number | undefined, mark: () => void) =>
          us === undefined
            ? undefined
            : member.process.at(world.nowUs() + us, () => {
                if (!waiting.has(request)) return;
                mark();
                leave.abort();
              });
        const { cancelUs, deadlineUs, saysUs = 0 } = patience();
        const cancel = giveUp(cancelUs, () => {
          request.cancelled = true;
        });
        const deadline = giveUp(deadlineUs, () => beLate(request));
        // Of a step it matters whether its gateway took it.
        request.refused = about.step !== undefined && member.gateway?.refusal(body) !== null;
        const settle = (outcome: Outcome) => {
          settlers.delete(request);
          cancel?.cancel();
          deadline?.cancel();
          waiting.delete(request);
          checks.answered(request, outcome);
          over(request);
        };
        if (about.step !== undefined) settlers.set(request, settle);
        void outcomeOf(member, request, body, leave.signal, saysUs / 1000)?.then((outcome) => {
          if (about.step !== undefined && !settlers.has(request)) return;
          if (options.failsAlone && !outcome.ok && !request.cancelled && failedBefore(about.step)) {
            member.process.at(world.nowUs() + ALONE_US, () => settlers.get(request)?.(outcome));
          } else settle(outcome);
        });
      });
    },
  };
}

function failedBefore(step: SimStep | undefined): boolean {
  const before = step?.sequence.steps.slice(0, step.index) ?? [];
  return before.some(({ fate }) => fate === 'lost' || fate === 'unknown');
}
