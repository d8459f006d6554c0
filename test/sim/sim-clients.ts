/** Clients of a simulation's gateways: requests in a steady stream and in bursts, some given up, some with a deadline. */
import type { Random } from '@nereid/runtime';
import type { SentRequest, SimChecks } from './sim-checks.ts';
import type { Member, SimCluster } from './sim-cluster.ts';
import { between, pick, type SimModel, simModel, simRequest } from './sim-models.ts';
import { readStream } from './sim-reader.ts';
import type { SimWorld } from './sim-world.ts';

/** A client that has waited for so long gives up: what L3 forbids after a single fault. */
export const DEADLINE_US = 8_000_000;
const DEADLINE_SHARE = 0.8;
const CANCEL_SHARE = 0.08;
const CANCEL_US_MAX = 400_000;
const GAP_US_MAX = 25_000;

export interface ClientsOptions {
  readonly world: SimWorld;
  readonly random: Random;
  readonly cluster: SimCluster;
  readonly checks: SimChecks;
  /** Whether a request may run into its deadline. */
  readonly lateAllowed: boolean;
  /** All that there are. */
  readonly models: readonly SimModel[];
  /** Models that are asked, each as often as it stands here. */
  readonly traffic: readonly SimModel[];
}

export interface SimClients {
  readonly sent: readonly SentRequest[];
  /** Sends until that time. */
  start(untilUs: number): void;
  burst(requests: number): void;
  /** Requests that somebody waits for. */
  waiting(): readonly SentRequest[];
}

/** True where the gateway has been told of every model, so that it knows what exists. */
export function knowsModels({ gateway }: Member, models: readonly SimModel[]): boolean {
  return models.every(({ name, versions }) => versions.every((version) => gateway?.modelReady(name, version)));
}

export function createSimClients(options: ClientsOptions): SimClients {
  const { world, random, cluster, checks, lateAllowed, models, traffic } = options;
  const sent: SentRequest[] = [];
  const waiting = new Set<SentRequest>();
  const known = new Set<Member>();

  const knowing = () => {
    const gateways = cluster.living('gateway');
    for (const member of gateways) if (!known.has(member) && knowsModels(member, models)) known.add(member);
    return gateways.filter((member) => known.has(member));
  };

  /** Runs as an event of the gateway's process. */
  const ask = (member: Member, request: SentRequest, body: ReturnType<typeof simRequest>) => {
    const leave = new AbortController();
    const giveUp = (us: number, mark: () => void) =>
      member.process.at(world.nowUs() + us, () => {
        if (!waiting.has(request)) return;
        mark();
        leave.abort();
      });
    const cancel =
      random.next() < CANCEL_SHARE
        ? giveUp(random.next() ** 3 * CANCEL_US_MAX, () => {
            request.cancelled = true;
          })
        : undefined;
    const deadline = random.next() < DEADLINE_SHARE ? giveUp(DEADLINE_US, () => beLate(request)) : undefined;
    void outcomeOf(member, request, body, leave.signal)?.then((outcome) => {
      cancel?.cancel();
      deadline?.cancel();
      waiting.delete(request);
      checks.answered(request, outcome);
    });
  };

  const outcomeOf = (
    { gateway }: Member,
    request: SentRequest,
    body: ReturnType<typeof simRequest>,
    signal: AbortSignal,
  ) => {
    if (gateway === undefined || !simModel(body.modelName).streams) return gateway?.infer(body, signal);
    return readStream(request, gateway.inferStream(body, signal), checks);
  };

  const beLate = (request: SentRequest) => {
    request.late = true;
    request.cancelled = true;
    if (!lateAllowed) {
      const sentS = (request.sentUs / 1e6).toFixed(6);
      checks.fail(
        'L3',
        `request ${request.token} to ${request.model} at ${request.gateway}, sent at ${sentS} s, is late`,
      );
    }
  };

  const send = () => {
    const gateways = knowing();
    if (gateways.length === 0) return;
    const member = pick(random, gateways);
    const token = sent.length + 1;
    const body = simRequest(random, token, traffic);
    const request: SentRequest = {
      token,
      model: body.modelName,
      version: body.modelVersion,
      shape: body.inputs[0]?.shape ?? [],
      gateway: member.id,
      sentUs: world.nowUs(),
      cancelled: false,
      broken: false,
      late: false,
      outcome: undefined,
      answeredUs: undefined,
    };
    sent.push(request);
    waiting.add(request);
    member.process.onKill(() => {
      // The client sees its connection end.
      request.broken = waiting.delete(request);
    });
    member.process.at(world.nowUs(), () => ask(member, request, body));
  };

  return {
    sent,
    start(untilUs) {
      const goOn = () => {
        if (world.nowUs() >= untilUs) return;
        send();
        world.at(world.nowUs() + between(random, 0, GAP_US_MAX), goOn);
      };
      goOn();
    },
    burst(requests) {
      for (let count = 0; count < requests; count++) send();
    },
    waiting: () => [...waiting],
  };
}
