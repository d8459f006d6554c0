import type { Alias, ModelSignature } from '@nereid/config';
import {
  type CarriedOutcome,
  type CarriedRequest,
  type CarriedTensor,
  type Outcome,
  orWhereItsSequenceIs,
} from '@nereid/protocol';
import { pointOf, versionAt } from './alias-choice.ts';
import type { StreamedAnswer } from './answer-queue.ts';

/** Where a request to an alias goes. */
export interface AliasRoute {
  readonly alias: Alias;
  /** By the weights, or the one that the request names; a step of a sequence that lives elsewhere goes there all the same. */
  readonly version: string;
  /** What its version was chosen by, the same for requests that belong together. */
  readonly key: string;
  /** It is a step of a sequence that its model keeps. */
  readonly isStep: boolean;
}

type Named = Pick<CarriedRequest, 'id' | 'modelVersion' | 'correlationId'>;

/**
 * Requests of one correlation id go to one version as long as the weights are the same, and so do those of one request id;
 * `token` stands for one that has neither.
 */
export function aliasRoute(
  alias: Alias,
  { sequence }: Pick<ModelSignature, 'sequence'>,
  request: Named,
  token: () => string,
): AliasRoute {
  const key = `${alias.name}\n${keyOf(request, token)}`;
  const version = request.modelVersion === '' ? versionAt(alias.versions, pointOf(key)) : request.modelVersion;
  // An iterative sequence is one request.
  const isStep = hasId(request) && sequence !== undefined && !sequence.iterative;
  return { alias, version, key, isStep };
}

/**
 * The request as its model sees it. A sequence stays where its START went, while weights change too: a later step goes
 * where it lives, by whatever gateway, and so does a START that its client may have sent before (`nereid_step`); one that
 * begins anew ends the sequence of its id wherever that is.
 */
export function routedRequest<R extends CarriedRequest>(request: R, { alias, version, isStep }: AliasRoute): R {
  const mayLive = isStep && request.modelVersion === '';
  return { ...request, modelName: alias.model, modelVersion: mayLive ? orWhereItsSequenceIs(version) : version };
}

/** The answer with the name that was asked for. */
export function namedOutcome<T extends CarriedTensor>(outcome: Outcome<T>, name: string): Outcome<T> {
  return outcome.ok ? { ok: true, response: { ...outcome.response, modelName: name } } : outcome;
}

export function namedAnswers(
  answers: AsyncIterableIterator<StreamedAnswer<CarriedTensor>>,
  name: string,
): AsyncIterableIterator<StreamedAnswer<CarriedTensor>> {
  return {
    async next() {
      const step = await answers.next();
      if (step.done === true) return step;
      const outcome: CarriedOutcome = namedOutcome(step.value.outcome, name);
      return { done: false, value: { ...step.value, outcome } };
    },
    async return() {
      await answers.return?.();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

function hasId({ correlationId }: Named): boolean {
  return correlationId !== 0n && correlationId !== '';
}

function keyOf(request: Named, token: () => string): string {
  const { id, correlationId } = request;
  if (hasId(request)) return typeof correlationId === 'string' ? `s'${correlationId}` : `s${correlationId}`;
  return id === '' ? token() : `r${id}`;
}
