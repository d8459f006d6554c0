/** The schemas of `GET /nereid/v1/explain/{id}` (protocol/explained-json). */
type Schema = Readonly<Record<string, unknown>>;

const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });
const text: Schema = { type: 'string' };
const amount: Schema = { type: 'integer', minimum: 0 };
const duration: Schema = { type: 'number', minimum: 0 };
const time: Schema = { type: 'string', format: 'date-time' };
const list = (items: Schema): Schema => ({ type: 'array', items });
const told = (schema: Schema, description: string): Schema => ({ ...schema, description });

const SEEN = {
  process: told(text, 'Who tells.'),
  arrived: told(time, 'When it came there.'),
  took_ms: told(duration, 'Until its outcome, or until now.'),
  state: { type: 'string', enum: ['waiting', 'running', 'ok', 'error', 'left'] },
  error: ref('ExplainedError'),
  events: told(
    list({ type: 'object', required: ['after_ms', 'what'], properties: { after_ms: duration, what: text } }),
    'What happened to it beside its plain way.',
  ),
};
const SEEN_ALWAYS = ['process', 'arrived', 'took_ms', 'state'];
const NAMES = {
  id: text,
  request_id: told(text, "The client's own id."),
  trace_id: text,
  job: text,
  model: text,
  version: text,
};

export const EXPLAINED_SCHEMAS = {
  Explained: {
    type: 'object',
    required: ['requests', 'more', 'unanswered'],
    properties: {
      requests: told(list(ref('ExplainedRequest')), 'The newest first.'),
      job: told({ type: 'object' }, 'Where the id is that of a job: the job as its queue has it.'),
      more: told({ type: 'boolean' }, 'There are more than were told.'),
      unanswered: told(list(text), 'Processes that did not answer in time: what only they know is missing.'),
    },
  },
  ExplainedRequest: {
    type: 'object',
    required: ['id', 'model', 'arrived', 'took_ms', 'state', 'runs', 'calls'],
    properties: {
      ...NAMES,
      sequence_id: { type: ['integer', 'string'] },
      parent: told(text, 'The request that it was called for.'),
      step: told(amount, 'Of an ensemble.'),
      ...{ arrived: time, took_ms: duration, state: SEEN.state, error: ref('ExplainedError') },
      call: told(ref('ExplainedCall'), 'As whoever waited for its answer saw it.'),
      runs: told(list(ref('ExplainedRun')), 'As the owners of its model saw it, the newest first.'),
      calls: told(list(ref('ExplainedRequest')), 'What was called for it.'),
    },
  },
  ExplainedCall: {
    type: 'object',
    required: [...SEEN_ALWAYS, 'door', 'sends'],
    properties: {
      ...SEEN,
      door: { type: 'string', enum: ['http', 'grpc', 'embedded', 'inner'] },
      owner: told(text, 'The coordinator that it was sent to last.'),
      sends: amount,
      answers: told(amount, 'Of a stream.'),
      cached: told({ type: 'boolean' }, 'It was answered from the response cache.'),
    },
  },
  ExplainedRun: {
    type: 'object',
    required: [...SEEN_ALWAYS, 'id', 'model', 'version', 'epoch', 'rows', 'found', 'queued_ms'],
    properties: {
      ...SEEN,
      ...NAMES,
      ...{ epoch: amount, rows: amount, priority: amount },
      found: told(
        { type: 'object', properties: { waiting: amount, ahead: amount, running: amount } },
        'At its arrival: requests waiting, those of them that went before it, and those in batches.',
      ),
      queued_ms: told(duration, 'Until its last batch was sent.'),
      copies: told(amount, 'Copies of it that came.'),
      losses: told(amount, 'Batches that were lost with it.'),
      session: text,
      batch: ref('ExplainedBatch'),
    },
  },
  ExplainedBatch: {
    type: 'object',
    required: ['number', 'worker', 'instance', 'requests', 'rows', 'others'],
    properties: {
      number: amount,
      close_reason: told(text, 'Why it was closed.'),
      ...{ worker: text, instance: text, slot: amount, requests: amount, rows: amount },
      wait_ms: told(duration, 'In the worker, until it began.'),
      ...{ input_ms: duration, infer_ms: duration, output_ms: duration },
      others: told(
        list({ type: 'object', required: ['id'], properties: { id: text, request_id: text } }),
        'Those in it that are still known.',
      ),
    },
  },
  ExplainedError: {
    type: 'object',
    required: ['code', 'message'],
    properties: { code: text, message: text, reason: text },
  },
} as const satisfies Readonly<Record<string, Schema>>;
