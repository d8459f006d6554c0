/** A gateway with one coordinator that does what a test says; only tests import this. */
import { LIMITS, type ModelRecord, parseModelConfig, type VersionRecord } from '@nereid/config';
import {
  type InferMessage,
  type InferResponse,
  isWholeRequest,
  type Message,
  type Outcome,
  type ResponseMessage,
} from '@nereid/protocol';
import { createLog, type VirtualClock, virtualClock } from '@nereid/runtime';
import {
  createLocalDirectory,
  createLocalTransport,
  type Directory,
  type LargeTensors,
  type Mailbox,
  type MailboxLimits,
  type Transport,
} from '@nereid/transport';
import { createGateway, type Gateway, type GatewayOptions } from './gateway.ts';

export const SIMPLE = `
name: "simple" backend: "onnxruntime" max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 2 ] }, { name: "INPUT1" data_type: TYPE_INT32 dims: [ 2 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 2 ] }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 2 ] } ]`;

/** A model whose outputs are its inputs. */
export const identity = (name: string, datatype: string, dims = '-1', rest = '') => `
name: "${name}" backend: "javascript" ${rest}
input [ { name: "INPUT" data_type: TYPE_${datatype} dims: [ ${dims} ] } ]
output [ { name: "OUTPUT" data_type: TYPE_${datatype} dims: [ ${dims} ] } ]`;

export function modelRecord(config: string, versions: readonly VersionRecord[] = [readyVersion('1')]): ModelRecord {
  const parsed = parseModelConfig(config, 'config.pbtxt');
  return { name: parsed.name, config: parsed, labels: {}, versions, contentHash: '' };
}

export function readyVersion(version: string): VersionRecord {
  return { version, state: 'READY', reason: '' };
}

/** Answers each input as the output of the same position. */
export function echo({ request }: InferMessage): Outcome {
  if (!isWholeRequest(request)) throw new Error('a request without its data');
  const response: InferResponse = {
    modelName: request.modelName,
    modelVersion: request.modelVersion === '' ? '1' : request.modelVersion,
    id: request.id,
    parameters: {},
    outputs: request.inputs.map((input) => ({ ...input, name: input.name.replace('INPUT', 'OUTPUT') })),
  };
  return { ok: true, response };
}

export function responseTo(message: InferMessage, outcome: Outcome): ResponseMessage {
  const { model, id } = message;
  return { kind: 'response', model, id, outcome, execution: `${id}/1`, chunk: 0, last: true };
}

export interface GatewayFixture {
  readonly clock: VirtualClock;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  readonly gateway: Gateway;
  /** What has come to the coordinator `co-1`. */
  readonly received: Message[];
  /** The coordinator's mailbox, to answer with. */
  readonly coordinator: Mailbox;
  /** Waits until so many messages have come to the coordinator. */
  arrived(count: number): Promise<void>;
  /** As if messages of this process may have been lost. */
  interrupt(): void;
}

export interface FixtureOptions extends Partial<Pick<GatewayOptions, 'strictReadiness' | 'timing' | 'unrecorded'>> {
  readonly limits?: Partial<GatewayOptions['limits']>;
  readonly models?: readonly ModelRecord[];
  /** By default requests stay unanswered. */
  readonly answer?: (message: InferMessage) => Outcome;
  /** Told of each message to the coordinator, before `answer` is. */
  readonly told?: (message: Message, coordinator: Mailbox) => void;
  readonly mailboxLimits?: MailboxLimits;
  readonly largeTensors?: LargeTensors;
}

const MAILBOX_LIMITS: MailboxLimits = { messages_max: 1000, bytes_max: 1e9 };

export async function gatewayFixture(options: FixtureOptions = {}): Promise<GatewayFixture> {
  const clock = virtualClock();
  const interruptions = new Set<() => void>();
  const transport: Transport = {
    ...createLocalTransport(options.mailboxLimits ?? MAILBOX_LIMITS),
    ...(options.largeTensors === undefined ? {} : { largeTensors: options.largeTensors }),
    onInterruption(listener) {
      interruptions.add(listener);
      return () => void interruptions.delete(listener);
    },
  };
  const directory = createLocalDirectory<ModelRecord>();
  const received: Message[] = [];
  let waiter: (() => void) | undefined;
  const coordinator = transport.open('co-1', (messages) => {
    for (const message of messages) {
      received.push(message);
      options.told?.(message, coordinator);
      if (message.kind === 'infer' && options.answer !== undefined) {
        coordinator.send(message.replyTo, responseTo(message, options.answer(message)));
      }
    }
    waiter?.();
  });
  await directory.register({ id: 'co-1', role: 'coordinator', draining: false });
  for (const record of options.models ?? [modelRecord(SIMPLE)]) {
    await directory.acquire(record.name, 'co-1');
    await directory.publish(record.name, record);
  }
  const gateway = createGateway({
    id: 'gw-1',
    clock,
    transport,
    directory,
    log: createLog({ level: 'silent' }),
    limits: { ...LIMITS, requests_pending_max: 100, ...options.limits },
    ...(options.strictReadiness === undefined ? {} : { strictReadiness: options.strictReadiness }),
    ...(options.timing === undefined ? {} : { timing: options.timing }),
    unrecorded: options.unrecorded,
  });
  const arrived = (count: number) =>
    new Promise<void>((resolve) => {
      waiter = () => {
        if (received.length >= count) resolve();
      };
      waiter();
    });
  const interrupt = () => {
    for (const listener of interruptions) listener();
  };
  return { clock, transport, directory, gateway, received, coordinator, arrived, interrupt };
}
