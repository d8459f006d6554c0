/** Rules of docs/protocol.md on sequences, taken out by what passes the mailboxes of the roles. */
import {
  type CarriedRequest,
  type DoneEntry,
  type DoneMessage,
  type InferMessage,
  isWholeOutcome,
  type Message,
  type Outcome,
  type ProcessId,
  type StepMarks,
} from '@nereid/protocol';
import type { MainRole, Transport } from '@nereid/transport';
import { altered, UNALTERED } from './altered-transport.ts';

export type SequenceRule =
  | 'R12'
  | 'R13'
  | 'R14'
  | 'R15'
  | 'R16'
  | 'R17'
  | 'R18'
  | 'R19'
  | 'R20'
  | 'R21'
  | 'R22'
  | 'R38'
  /** That owners hear of cancels. */
  | 'cancels'
  /** That gateways say which of their requests are settled (R8, R20). */
  | 'low';

export const SEQUENCE_RULES: readonly {
  readonly rule: SequenceRule;
  readonly of: MainRole;
  readonly take: (transport: Transport) => Transport;
}[] = [
  { rule: 'R12', of: 'coordinator', take: stepsNameNoSession },
  { rule: 'R13', of: 'coordinator', take: nobodyIsMoved },
  { rule: 'R14', of: 'worker', take: everyStepIsNew },
  { rule: 'R15', of: 'gateway', take: whoeverIsMovedGoesOn },
  { rule: 'R16', of: 'gateway', take: (transport) => saying(transport, () => ({ prev: 0 })) },
  { rule: 'R19', of: 'gateway', take: cancelsNothing },
  { rule: 'cancels', of: 'gateway', take: cancelsNothing },
  { rule: 'R18', of: 'coordinator', take: stepsAreOverAtOnce },
  { rule: 'R20', of: 'worker', take: answersAreForgotten },
  { rule: 'R21', of: 'coordinator', take: firstBoundHolds },
  { rule: 'R22', of: 'gateway', take: (transport) => saying(transport, () => ({ step: -1 })) },
  { rule: 'R38', of: 'coordinator', take: nobodyDrains },
  { rule: 'low', of: 'gateway', take: (transport) => saying(transport, () => ({ low: 1 })) },
];

/** Gateways that say something else of each request. */
function saying(transport: Transport, what: (infer: InferMessage) => Partial<InferMessage>): Transport {
  return altered(transport, () => ({
    sent: (message) => (message.kind === 'infer' ? { ...message, ...what(message) } : message),
    received: (message) => [message],
  }));
}

/** An owner that hears other messages. */
function hearing(transport: Transport, hear: (message: Message) => Message): Transport {
  return altered(transport, () => ({ sent: UNALTERED, received: (message) => [hear(message)] }));
}

const keyOf = (model: string, { correlationId }: Pick<CarriedRequest, 'correlationId'>) =>
  `${model}/${typeof correlationId}/${correlationId}`;

/** R12 off: a step goes to whatever sequence has its correlation id now. */
function stepsNameNoSession(transport: Transport): Transport {
  return altered(transport, () => {
    const present = new Map<string, string>();
    return {
      sent(message) {
        if (message.kind !== 'execute') return message;
        for (const { session, request } of message.entries) {
          if (session !== null) present.set(keyOf(message.model, request), session);
        }
        return message;
      },
      received(message) {
        if (message.kind === 'described') {
          for (const slot of message.versions.flatMap(({ slots = [] }) => slots)) {
            present.set(keyOf(message.model, slot), slot.session);
          }
        }
        if (message.kind !== 'infer' || message.request.sequenceStart) return [message];
        return [{ ...message, session: present.get(keyOf(message.model, message.request)) ?? message.session }];
      },
    };
  });
}

/** R13 off: a step that names a sequence that is over fails. */
function nobodyIsMoved(transport: Transport): Transport {
  return altered(transport, () => ({
    sent(message) {
      if (message.kind !== 'moved' || message.sent === null) return message;
      const { model, id } = message;
      const error = { code: 'INVALID_ARG', message: 'the sequence is over', reason: 'sequence_lost' } as const;
      return { kind: 'response', model, id, outcome: { ok: false, error }, execution: '', chunk: 0, last: true };
    },
    received: (message) => [message],
  }));
}

/** R14 off: a worker applies each step that comes, whatever it has applied before. */
function everyStepIsNew(transport: Transport): Transport {
  return altered(transport, () => {
    let next = 1;
    const marks = new Map<string, Map<string, number>>();
    const real = (session: string): StepMarks => [...(marks.get(session) ?? [])];
    return {
      received(message) {
        if (message.kind !== 'execute') return [message];
        const entries = message.entries.map((entry) => {
          const { step, session, replyTo } = entry;
          if (step === undefined || session === null) return entry;
          const own = marks.get(session) ?? new Map<string, number>();
          marks.set(session, own.set(replyTo, Math.max(own.get(replyTo) ?? 0, step.g)));
          return { ...entry, step: { ...step, g: next++, prev: 0, low: 1 } };
        });
        return [{ ...message, entries }];
      },
      sent(message) {
        if (message.kind !== 'described') return message;
        const versions = message.versions.map((version) => ({
          ...version,
          ...(version.slots && { slots: version.slots.map((slot) => ({ ...slot, marks: real(slot.session) })) }),
          ...(version.ended && { ended: version.ended.map((over) => ({ ...over, marks: real(over.session) })) }),
        }));
        return { ...message, versions };
      },
    };
  });
}

/** R15 off: a step that was sent more than once goes to the sequence that it was moved to, too. */
function whoeverIsMovedGoesOn(transport: Transport): Transport {
  return altered(transport, (mailbox) => {
    const steps = new Map<string, InferMessage>();
    return {
      sent(message) {
        if (message.kind === 'infer') steps.set(message.id, message);
        return message;
      },
      received(message) {
        if (message.kind === 'response') steps.delete(message.id);
        const step = message.kind === 'moved' ? steps.get(message.id) : undefined;
        if (message.kind !== 'moved' || step === undefined || step.sends <= 1 || message.current === null)
          return [message];
        mailbox.send(step.epoch.owner, { ...step, session: message.current });
        return [];
      },
    };
  });
}

/** R19 off, at the owner: it does not hear that a step is not waited for, and goes on with its sequence. */
function cancelsNothing(transport: Transport): Transport {
  return altered(transport, () => ({
    sent: (message) => (message.kind === 'cancel' ? undefined : message),
    received: (message) => [message],
  }));
}

/** R17 off, and R19 at the gateway: what it holds back or drops is told. */
export function toldEarly(
  transport: Transport,
  told: (gateway: ProcessId, request: string, outcome: Outcome) => void,
): Transport {
  return altered(transport, (mailbox) => {
    const names = new Map<string, string>();
    return {
      sent(message) {
        if (message.kind === 'infer' && message.request.id !== '') names.set(message.id, message.request.id);
        return message;
      },
      received(message) {
        const name = message.kind === 'response' && message.last ? names.get(message.id) : undefined;
        if (message.kind === 'response' && name !== undefined && isWholeOutcome(message.outcome)) {
          told(mailbox.id, name, message.outcome);
        }
        return [message];
      },
    };
  });
}

/** R18 off: an owner takes a step for done as soon as it is sent. */
function stepsAreOverAtOnce(transport: Transport): Transport {
  return altered(transport, (_, hand) => {
    const told = new Set<string>();
    const key = ({ model, epoch, batch }: Pick<DoneMessage, 'model' | 'epoch' | 'batch'>) =>
      `${model}/${epoch.number}/${batch}`;
    return {
      sent(message, worker) {
        if (message.kind !== 'execute' || message.entries.some(({ step }) => step === undefined)) return message;
        const { model, epoch, version, batch, instance } = message;
        const entries = message.entries.map(({ id }): DoneEntry => ({ id, result: 'ok', error: null }));
        const timing = { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 };
        told.add(key(message));
        queueMicrotask(() =>
          hand({ kind: 'done', model, epoch, version, worker, batch, instance, timing, executed: true, entries }),
        );
        return message;
      },
      received: (message) => (message.kind === 'done' && told.delete(key(message)) ? [] : [message]),
    };
  });
}

/** R20 off: a worker keeps no answer for who asks again. */
function answersAreForgotten(transport: Transport): Transport {
  return hearing(transport, (message) => {
    if (message.kind !== 'execute') return message;
    const entries = message.entries.map((entry) =>
      entry.step === undefined ? entry : { ...entry, step: { ...entry.step, low: entry.step.g + 1 } },
    );
    return { ...message, entries };
  });
}

/** R21 off: of two slots of one correlation id the one that was bound first stays. */
function firstBoundHolds(transport: Transport): Transport {
  return hearing(transport, (message) => {
    if (message.kind !== 'described') return message;
    const versions = message.versions.map((version) => ({
      ...version,
      ...(version.slots && {
        slots: version.slots.map((slot) => ({ ...slot, bind: { epoch: -slot.bind.epoch, n: -slot.bind.n } })),
      }),
    }));
    return { ...message, versions };
  });
}

/** R38 off: an owner does not hear that a worker takes no more. */
function nobodyDrains(transport: Transport): Transport {
  return hearing(transport, (message) => (message.kind === 'described' ? { ...message, draining: false } : message));
}
