import { NereidError } from './error.ts';
import type { InferRequest } from './infer.ts';
import { STEP_NEEDS_ID } from './request-error.ts';

/** The parameter of a job that numbers it within its sequence, from 0; also a member of job data. */
const INDEX = 'sequence_index';

/** A job's request without what numbers it, and its number, -1 for none. */
export interface JobStep {
  readonly request: InferRequest;
  readonly index: number;
}

/**
 * Which step of its sequence a job is: by its parameter `sequence_index` or, as for requests, `nereid_step`, or by the
 * member `sequence_index` of job data.
 * Throws INVALID_ARG where that is no number from 0, is given twice, or belongs to no sequence.
 */
export function jobStep(request: InferRequest, member: unknown): JobStep {
  const { [INDEX]: parameter, ...parameters } = request.parameters;
  const { sequenceStep = -1, ...plain } = request;
  const isStep = plain.correlationId !== 0n && plain.correlationId !== '';
  if (parameter === undefined && member === undefined) {
    if (sequenceStep < 0 || isStep) return { request: plain, index: sequenceStep };
    const { code, message, field = '' } = STEP_NEEDS_ID;
    throw new NereidError(code, message, { field });
  }
  if (parameter !== undefined && member !== undefined) throw wrong('give sequence_index once');
  if (sequenceStep >= 0) throw wrong('sequence_index and nereid_step say the same: give one of them');
  const index = typeof parameter === 'bigint' ? Number(parameter) : (parameter ?? member);
  if (typeof index !== 'number' || !Number.isSafeInteger(index) || index < 0) {
    throw wrong(`sequence_index must be an integer from 0, got: ${JSON.stringify(member) ?? String(parameter)}`);
  }
  if (!isStep) throw wrong('sequence_index numbers a step of a sequence: give its sequence_id');
  return { request: { ...plain, parameters }, index };
}

function wrong(message: string): NereidError {
  return new NereidError('INVALID_ARG', message, { field: `parameters.${INDEX}` });
}
