/** For tests: a gateway that is a plain mailbox. */
import type { ModelRecord } from '@nereid/config';
import type {
  CarriedOutcome,
  ChangedMessage,
  ChangeMessage,
  CountedMessage,
  Epoch,
  ExplainedMessage,
  InferMessage,
  InferRequest,
  ListedMessage,
  RunningMessage,
  StaleMessage,
} from '@nereid/protocol';
import type { Directory, Transport } from '@nereid/transport';

export type FakeGateway = ReturnType<typeof fakeGateway>;

/** A gateway that sends what it is told and keeps all answers. */
export function fakeGateway(
  id: string,
  transport: Transport,
  directory: Directory<ModelRecord>,
  /** Ids of the requests of all gateways as their answers come, of a part with its number. */
  answered: string[],
) {
  let g = 0;
  let questions = 0;
  const outcomes = new Map<string, CarriedOutcome[]>();
  const stale: StaleMessage[] = [];
  const counted: CountedMessage[] = [];
  const listed: ListedMessage[] = [];
  const explained: ExplainedMessage[] = [];
  const changed: ChangedMessage[] = [];
  const running: RunningMessage[] = [];
  /** Ids of requests whose data a worker did not find. */
  const missing: string[] = [];
  /** `id → session`, of steps that named another, or none. */
  const moved: string[] = [];
  const mailbox = transport.open(id, (messages) => {
    for (const message of messages) {
      if (message.kind === 'stale') stale.push(message);
      else if (message.kind === 'running') running.push(message);
      else if (message.kind === 'moved') moved.push(`${message.id} → ${message.current}`);
      else if (message.kind === 'missing') missing.push(message.id);
      else if (message.kind === 'counted') counted.push(message);
      else if (message.kind === 'listed') listed.push(message);
      else if (message.kind === 'explained') explained.push(message);
      else if (message.kind === 'changed') changed.push(message);
      if (message.kind !== 'response') continue;
      answered.push(message.last ? message.id : `${message.id}/${message.chunk}`);
      outcomes.set(message.id, [...(outcomes.get(message.id) ?? []), message.outcome]);
    }
  });
  const epochOf = (model: string): Epoch => directory.owner(model) ?? { number: 0, owner: 'co-1' };
  return {
    id,
    stale,
    counted,
    listed,
    explained,
    changed,
    running,
    answered,
    missing,
    moved,
    /** Sends a request; its id. */
    infer(request: InferRequest, more: Partial<InferMessage> = {}): string {
      g++;
      const message: InferMessage = {
        kind: 'infer',
        model: request.modelName,
        epoch: epochOf(request.modelName),
        id: `${id}:${g}`,
        g,
        low: 1,
        prev: 0,
        session: null,
        step: -1,
        sends: 1,
        msLeft: 0,
        replyTo: id,
        request,
        ...more,
      };
      mailbox.send(message.epoch.owner, message);
      return message.id;
    },
    /** Asks what has been counted of version 1, or others; the id of the question. */
    count(model: string, versions = ['1'], epoch = epochOf(model)): string {
      const question = `${id}:c${++questions}`;
      mailbox.send(epoch.owner, { kind: 'count', model, epoch, id: question, versions });
      return question;
    },
    /** Asks for a load or an unload; its id. What comes of it comes into `changed`. */
    change(
      model: string,
      action: ChangeMessage['action'],
      more: Partial<ChangeMessage> = {},
      to = directory.owner(model)?.owner ?? 'co-1',
    ): string {
      const message = {
        kind: 'change',
        model,
        id: `${id}:m${++questions}`,
        action,
        override: '',
        dependents: false,
      } as const;
      mailbox.send(to, { ...message, ...more });
      return more.id ?? message.id;
    },
    /** Tells what it answered without the owner, and looked for in vain; no answer comes. */
    cached(model: string, version: string, hits: number, misses: number) {
      const epoch = epochOf(model);
      mailbox.send(epoch.owner, {
        kind: 'cached',
        model,
        epoch,
        version,
        hits,
        hitRequest: { ns: hits * 9_900, us: hits * 9 },
        hitQueue: { ns: hits * 1_100, us: hits },
        hitLookup: { ns: hits * 2_200, us: hits * 2 },
        misses,
        miss: { ns: misses * 3_300, us: misses * 3 },
      });
    },
    /** Asks what became of a request; the answer comes into `explained`. */
    explain(about: string, parents: readonly string[] = [], limit = 10, to = 'co-1') {
      mailbox.send(to, { kind: 'explain', id: `${id}:e${++questions}`, about, parents, limit });
    },
    /** Asks for the sequences behind that session; the id of the question. */
    list(model: string, after = '', limit = 100, epoch = epochOf(model)): string {
      const question = `${id}:c${++questions}`;
      mailbox.send(epoch.owner, { kind: 'list', model, epoch, id: question, after, limit });
      return question;
    },
    /** Ends that one; the id of the question. */
    evict(model: string, session: string): string {
      const question = `${id}:c${++questions}`;
      const epoch = epochOf(model);
      mailbox.send(epoch.owner, { kind: 'evict', model, epoch, id: question, session });
      return question;
    },
    cancel(model: string, requestId: string, epoch = epochOf(model)) {
      mailbox.send(epoch.owner, { kind: 'cancel', model, epoch, id: requestId, g: 0, low: 1, session: null });
    },
    cancelJob(model: string, job: string) {
      mailbox.send(epochOf(model).owner, { kind: 'cancel_job', model, id: job });
    },
    /** All that came for a request. */
    outcomes: (requestId: string): readonly CarriedOutcome[] => outcomes.get(requestId) ?? [],
    /** What became of a request: 'ok', `CODE: text`, or nothing yet. Two answers are told as such. */
    outcome(requestId: string): string {
      const got = (outcomes.get(requestId) ?? []).map((outcome) =>
        outcome.ok ? 'ok' : `${outcome.error.code}: ${outcome.error.message}`,
      );
      return got.length === 0 ? 'none' : got.join(' and ');
    },
  };
}
