/**
 * Every bound of the server, each with its unit in its name. Nothing queues, buffers, nests or
 * retries without one of these. docs/limits.md is generated from this file.
 */
export const LIMITS = {
  body_bytes_max: 67_108_864,
  header_bytes_max: 65_536,
  json_depth_max: 100,
  json_elements_max: 33_554_432,
  tensor_bytes_max: 1_073_741_824,
  tensor_dims_max: 64,
  tensors_per_request_max: 1_024,
  parameters_per_request_max: 1_024,
  name_bytes_max: 1_024,
  requests_pending_max: 65_536,
  requests_queued_max: 65_536,
  mailbox_messages_max: 65_536,
  mailbox_bytes_max: 1_073_741_824,
  message_header_bytes_max: 16_777_216,
  message_bytes_max: 2_147_483_648,
  config_bytes_max: 4_194_304,
  labels_bytes_max: 16_777_216,
  models_max: 65_536,
  versions_per_model_max: 4_096,
  onnx_head_bytes_max: 67_108_864,
  instances_per_model_max: 1_024,
  instance_start_timeout_ms: 600_000,
  instance_restart_attempts_max: 5,
  instance_restart_backoff_min_ms: 100,
  instance_restart_backoff_max_ms: 10_000,
  options_file_bytes_max: 1_048_576,
} as const;

export type LimitName = keyof typeof LIMITS;

const MEANINGS: Readonly<Record<LimitName, string>> = {
  body_bytes_max: 'A request body, before and after decompression; `--http-max-input-size` changes it.',
  header_bytes_max: 'The header lines of one HTTP request together.',
  json_depth_max: 'How deep arrays and objects may nest in a JSON body.',
  json_elements_max: 'Array elements in one JSON body, over all tensors.',
  tensor_bytes_max: 'One tensor in its binary form, checked before memory is taken for it.',
  tensor_dims_max: "Dimensions in one tensor's shape.",
  tensors_per_request_max: 'Inputs, and likewise requested outputs, of one request.',
  parameters_per_request_max: 'Parameters of one request, and of each of its tensors.',
  name_bytes_max: 'A name or id that a client chooses: model, tensor, request id, sequence id, parameter key.',
  requests_pending_max: 'Requests of one gateway that still wait for an answer; one more is refused with 503.',
  requests_queued_max: 'Requests waiting in one model version where its config sets no `max_queue_size`.',
  mailbox_messages_max: "Unread messages in one process's mailbox; one more is refused as a full queue.",
  mailbox_bytes_max: "Bytes of unread messages in one process's mailbox; more are refused as a full queue.",
  message_header_bytes_max: 'The part before the tensors of one message between processes.',
  message_bytes_max: 'One message between processes with its tensors.',
  config_bytes_max: 'A `config.pbtxt`, or the config text of a message.',
  labels_bytes_max: 'A labels file.',
  models_max: 'Models over all repositories.',
  versions_per_model_max: 'Version folders of one model.',
  onnx_head_bytes_max: 'What is read of an ONNX graph without its weights to complete a config.',
  instances_per_model_max: 'Instances that one worker starts for one model version.',
  instance_start_timeout_ms: 'How long an instance may take to load its model; longer is a load failure.',
  instance_restart_attempts_max: 'Starts in a row of an instance that died before it is given up as UNAVAILABLE.',
  instance_restart_backoff_min_ms: 'Pause before the second of those starts; each later pause is twice as long.',
  instance_restart_backoff_max_ms: 'The longest pause between two of those starts.',
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
    'Every bound of the server. The unit is the last word but `max` or `min` of the name; what has none is a count.',
    'This page is generated from `packages/config/src/limits.ts`.',
    '',
    '| limit | default | what it bounds |',
    '| --- | ---: | --- |',
    ...rows,
    '',
  ].join('\n');
}
