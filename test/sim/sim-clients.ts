/** Clients of a simulation's gateways: requests in a steady stream and in bursts, some given up, some with a deadline; and sequences. */
import type { Random } from '@nereid/runtime';
import { createSequenceClients } from './sequence-clients.ts';
import type { SequenceKind } from './sequence-steps.ts';
import { type Asking, type AskingOptions, createAsking, DEADLINE_US } from './sim-asking.ts';
import type { SentRequest } from './sim-checks.ts';
import { between, pick, type SimModel, simRequest } from './sim-models.ts';
import type { ClientContract } from './switches.ts';

const DEADLINE_SHARE = 0.8;
const CANCEL_SHARE = 0.08;
const CANCEL_US_MAX = 400_000;
const GAP_US_MAX = 25_000;

export interface ClientsOptions extends AskingOptions {
  readonly random: Random;
  /** Models that are asked, each as often as it stands here. */
  readonly traffic: readonly SimModel[];
  readonly contract: ClientContract;
  /** As of SequenceClientsOptions. */
  readonly kinds?: readonly SequenceKind[];
}

export interface SimClients {
  readonly sent: readonly SentRequest[];
  /** Sends until that time. */
  start(untilUs: number): void;
  burst(requests: number): void;
  /** Requests that somebody waits for. */
  waiting(): readonly SentRequest[];
  readonly early: Asking['early'];
  /** True once nobody waits and no more comes. */
  over(): boolean;
}

export function createSimClients(options: ClientsOptions): SimClients {
  const { world, random, traffic } = options;
  const asking = createAsking(options);
  const stateless = traffic.filter(({ idleUs }) => idleUs === undefined);
  const sequences = createSequenceClients({
    ...options,
    asking,
    traffic: traffic.filter(({ idleUs }) => idleUs !== undefined),
  });

  const send = () => {
    const gateways = asking.gateways();
    if (gateways.length === 0) return;
    const member = pick(random, gateways);
    const token = asking.nextToken();
    const body = simRequest(random, token, stateless);
    asking.ask(member, body, { token, step: undefined }, () => ({
      cancelUs: random.next() < CANCEL_SHARE ? random.next() ** 3 * CANCEL_US_MAX : undefined,
      deadlineUs: random.next() < DEADLINE_SHARE ? DEADLINE_US : undefined,
    }));
  };

  return {
    sent: asking.sent,
    early: asking.early,
    start(untilUs) {
      const goOn = () => {
        if (world.nowUs() >= untilUs) return;
        send();
        world.at(world.nowUs() + between(random, 0, GAP_US_MAX), goOn);
      };
      if (stateless.length > 0) goOn();
      sequences.start(untilUs);
    },
    burst(requests) {
      if (stateless.length > 0) for (let count = 0; count < requests; count++) send();
      sequences.burst(requests);
    },
    waiting: () => [...asking.waiting],
    over: () => asking.waiting.size === 0 && sequences.live === 0,
  };
}
