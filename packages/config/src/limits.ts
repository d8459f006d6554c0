/**
 * The bounds of the server, each with its unit in its name: nothing queues, buffers, nests or
 * retries without one. docs/limits.md is generated from this file. Bounds of the codecs stand in
 * protocol (protocol-limits.ts), which imports nothing.
 */
export const LIMITS = {
  body_bytes_max: 67_108_864,
  header_bytes_max: 65_536,
  header_timeout_ms: 60_000,
  request_timeout_ms: 300_000,
  keep_alive_timeout_ms: 72_000,
  bytes_in_flight_max: 2_147_483_648,
  grpc_message_bytes_max: 2_147_483_647,
  grpc_metadata_bytes_max: 16_384,
  grpc_calls_per_connection_max: 16_384,
  answer_unread_timeout_ms: 300_000,
  shared_memory_regions_max: 4_096,
  json_depth_max: 100,
  json_elements_max: 33_554_432,
  body_bytes_raised_max: 1_073_741_824,
  requests_pending_max: 65_536,
  requests_queued_max: 65_536,
  ordered_answers_held_max: 16_384,
  ordered_bytes_held_max: 268_435_456,
  stream_unread_chunks_max: 16_384,
  stream_unread_bytes_max: 67_108_864,
  grpc_stream_requests_max: 1_024,
  grpc_stream_bytes_max: 268_435_456,
  mailbox_messages_max: 65_536,
  mailbox_bytes_max: 1_073_741_824,
  blob_bytes_max: 1_073_741_824,
  cache_entry_bytes_max: 16_777_216,
  cache_insert_bytes_max: 67_108_864,
  kept_bytes_max: 1_073_741_824,
  uploads_bytes_max: 2_147_483_648,
  config_bytes_max: 4_194_304,
  auto_complete_timeout_ms: 30_000,
  labels_bytes_max: 16_777_216,
  models_max: 65_536,
  versions_per_model_max: 4_096,
  files_per_version_max: 65_536,
  version_folder_depth_max: 16,
  model_files_max: 262_144,
  cloud_downloads_max: 16,
  cloud_download_attempts_max: 3,
  cloud_connect_timeout_ms: 10_000,
  cloud_idle_timeout_ms: 60_000,
  onnx_head_bytes_max: 67_108_864,
  instances_per_model_max: 1_024,
  instance_start_timeout_ms: 600_000,
  warmup_bytes_max: 1_073_741_824,
  ensemble_steps_max: 1_024,
  ensemble_depth_max: 64,
  sequences_per_instance_max: 65_536,
  initial_state_bytes_max: 268_435_456,
  instance_restart_attempts_max: 5,
  instance_restart_backoff_min_ms: 100,
  instance_restart_backoff_max_ms: 10_000,
  model_calls_max: 1_024,
  sequence_answers_max: 16,
  sequence_answers_waited_max: 1_024,
  sequence_answer_bytes_max: 67_108_864,
  strategy_start_timeout_ms: 30_000,
  unload_wait_ms: 30_000,
  on_demand_wait_ms: 60_000,
  bulk_active_max: 1_000,
  bulk_lines_max: 100_000,
  bulk_bytes_max: 268_435_456,
  bulk_line_bytes_max: 4_194_304,
  bulk_full_wait_ms: 600_000,
  aliases_max: 256,
  alias_versions_max: 16,
  shadow_requests_max: 64,
  shadow_bytes_max: 268_435_456,
  shadow_sequences_max: 1_024,
  shadow_wait_ms: 60_000,
  explained_requests_max: 8_192,
  explained_failures_max: 2_048,
  options_file_bytes_max: 1_048_576,
} as const;

export type LimitName = keyof typeof LIMITS;

const MEANINGS: Readonly<Record<LimitName, string>> = {
  body_bytes_max: 'A request body, and each of its tensors; `--http-max-input-size` changes it.',
  header_bytes_max: 'The header lines of one HTTP request together.',
  header_timeout_ms: 'From the first byte of an HTTP request to the end of its header; longer is 408.',
  request_timeout_ms: 'The same to the end of its body.',
  // Above the 60 s of common proxies, so that they end idle connections, not we while they send.
  keep_alive_timeout_ms: 'How long an HTTP connection may stay open between two requests.',
  bytes_in_flight_max:
    'Bytes that the requests of one gateway hold together, with their answers until these are read; a request beyond is refused with 503. `--max-bytes-in-flight` changes it.',
  grpc_message_bytes_max: "A gRPC message, compressed or not: gRPC's own bound. Clients have lower ones to be raised.",
  grpc_metadata_bytes_max:
    "Metadata of one gRPC call, each name and value with 32 bytes more, as HTTP/2 counts it: gRPC's own bound. A call with more is reset.",
  grpc_calls_per_connection_max: 'Calls that one gRPC connection has open; its client holds back more.',
  answer_unread_timeout_ms:
    'How long a client may leave what waits to be read of its answers where it was; then its connection is ended.',
  shared_memory_regions_max: 'Shared-memory regions that clients have registered with one gateway.',
  json_depth_max: 'How deep arrays and objects may nest in a JSON body.',
  json_elements_max: 'Array elements in one JSON body, over all tensors.',
  body_bytes_raised_max: 'The most that `--http-max-input-size` may be raised to.',
  requests_pending_max: 'Requests of one gateway that still wait for an answer; one more is refused with 503.',
  requests_queued_max:
    'Requests waiting in one model version, all priority levels together, unless a `max_queue_size` is larger.',
  ordered_answers_held_max:
    'Answers of one model version with `preserve_ordering` that wait for an earlier one; at it no more batches are sent, and a stream that goes on is ended with 503.',
  ordered_bytes_held_max: 'Bytes of those answers, with the same effect.',
  stream_unread_chunks_max: 'Answers of one stream that its client has not read; one more ends the stream with 503.',
  stream_unread_bytes_max: 'Bytes of those answers; an answer that begins beyond it ends the stream with 503.',
  grpc_stream_requests_max:
    'Requests of one `ModelStreamInfer` call in flight; the next is read once one has its last answer.',
  grpc_stream_bytes_max:
    'Bytes of those requests, and of answers that wait for an earlier one; the next request is read below it.',
  mailbox_messages_max: "Unread messages in one process's mailbox; one more is refused as a full queue.",
  mailbox_bytes_max: "Bytes of unread messages in one process's mailbox; more are refused as a full queue.",
  blob_bytes_max:
    'Bytes of large tensors that one process has put down for others to fetch; more are refused as a full queue.',
  kept_bytes_max:
    'Bytes of outputs that one worker keeps in its memory for the next steps of ensembles; beyond it they travel as other large tensors do.',
  cache_entry_bytes_max: 'An answer that is kept in Redis by `--cache-config=redis`; a larger one is not kept.',
  cache_insert_bytes_max:
    'Bytes of answers that one process has on their way to be kept in Redis; what comes beyond is not kept.',
  uploads_bytes_max:
    'Bytes of files and configs that clients have sent in place of those of models and that are kept for these; more are refused with 503.',
  config_bytes_max: 'A `config.pbtxt`, or the config text of a message.',
  auto_complete_timeout_ms: 'How long a JavaScript model may take to complete its configuration, its import included.',
  labels_bytes_max: 'A labels file.',
  models_max: 'Models over all repositories.',
  versions_per_model_max: 'Version folders of one model.',
  files_per_version_max: 'Files in one version folder and the folders below it.',
  version_folder_depth_max: 'How deep folders may nest in a version folder; more is a circle of links.',
  model_files_max:
    'Files of one model that are looked at for changes; of a local folder those beyond are not noticed, a model in a cloud cannot have them.',
  cloud_downloads_max: 'Objects that are downloaded at the same time from one repository in a cloud.',
  cloud_download_attempts_max:
    'How often an object is downloaded whose contents break off; the SDKs try again what fails before.',
  cloud_connect_timeout_ms: 'How long a connection to S3 may take.',
  cloud_idle_timeout_ms: 'How long an answer of a cloud may stand still.',
  onnx_head_bytes_max: 'What is read of an ONNX graph without its weights to complete a config.',
  instances_per_model_max: 'Instances that one worker starts for one model version.',
  instance_start_timeout_ms:
    'How long an instance may take to load its model and run its warm-up samples; longer is a load failure.',
  warmup_bytes_max: 'Bytes of the inputs of one execution of a warm-up sample.',
  ensemble_steps_max: 'Steps of one ensemble.',
  ensemble_depth_max: 'Ensembles within each other: one whose steps are no ensembles is one deep.',
  sequences_per_instance_max:
    'Sequences that one instance keeps at a time: `max_candidate_sequences`, or `max_batch_size` where a slot is a row.',
  initial_state_bytes_max: 'Bytes of the states of one sequence at its START, all states together.',
  instance_restart_attempts_max: 'Starts in a row of an instance that died before it is given up as UNAVAILABLE.',
  instance_restart_backoff_min_ms: 'Pause before the second of those starts; each later pause is twice as long.',
  instance_restart_backoff_max_ms: 'The longest pause between two of those starts.',
  model_calls_max: 'Calls of other models that one instance has open; one more is refused with 503.',
  sequence_answers_max:
    'Answers that a worker keeps of one sequence whose steps are numbered, to send them again, though their gateway has them.',
  sequence_answers_waited_max:
    'Answers that a worker keeps of one sequence until it hears that their gateway has them; beyond it the oldest go, and a gateway that has stood still for so long finds its sequence lost.',
  sequence_answer_bytes_max:
    'Bytes of those answers, over all sequences of one model version on one worker; beyond it the oldest go.',
  strategy_start_timeout_ms: 'How long a batching strategy may take to load, `modelInit` included.',
  unload_wait_ms:
    'How long `unloadModel` waits for requests that still run; the model is unloaded once they end, later too.',
  on_demand_wait_ms:
    'How long a request waits for a worker to load its model, where its config has no `nereid.max_wait_ms`; longer is 503.',
  bulk_active_max: 'Batches over all models that are not over; one more is refused with 429.',
  bulk_lines_max: 'Lines of one batch; more are refused with 413.',
  bulk_bytes_max: 'The file of one batch; a larger one is refused with 413.',
  bulk_line_bytes_max: 'One line of a batch; a longer one is refused with 413.',
  bulk_full_wait_ms:
    'How long a batch waits where Redis uses more than nine tenths of its memory; then it fails, with the results that it has.',
  aliases_max: 'Aliases of a cluster; one more is refused.',
  alias_versions_max: 'Versions of one alias; more are refused.',
  shadow_requests_max: 'Shadow copies of requests that one gateway has on their way; one more is dropped and counted.',
  shadow_bytes_max: 'Inputs of such copies together; a copy beyond is dropped and counted.',
  shadow_sequences_max: 'Sequences that one gateway copies; the one that began first is dropped for one more.',
  shadow_wait_ms: 'How long a shadow copy waits for its answer; then it is cancelled and counts as failed.',
  explained_requests_max:
    'Requests that each gateway and each coordinator remembers once they are over, for `nereid explain`; texts of more than 256 characters are cut.',
  explained_failures_max:
    'Older ones that are remembered beside them because they failed, were tried again or took more than a second.',
  options_file_bytes_max: 'The file that `--config` names.',
};

/** docs/limits.md. */
export function limitsMarkdown(): string {
  const rows = (Object.keys(LIMITS) as LimitName[]).map(
    (name) => `| \`${name}\` | ${LIMITS[name].toLocaleString('en-US')} | ${MEANINGS[name]} |`,
  );
  return [
    '# Limits',
    '',
    'The bounds of the server: nothing queues, buffers, nests or retries without one. The unit stands in the name',
    '(`bytes`, `ms`); what has none is a count. This page is generated from `packages/config/src/limits.ts`. Those of',
    'the codecs, which no option changes, are in `packages/protocol/src/protocol-limits.ts`.',
    '',
    '| limit | default | what it bounds |',
    '| --- | ---: | --- |',
    ...rows,
    '',
  ].join('\n');
}
