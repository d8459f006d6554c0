/**
 * Times of leases, registrations and renewals (docs/protocol.md §6). One factor stretches them all
 * together (`--time-scale`), so that a starved machine does not fence healthy processes.
 */
export interface Timing {
  readonly lease_ms: number;
  /** A lease or registration counts as lost this long before it ends. */
  readonly margin_ms: number;
  /** Renewals of registrations and leases. */
  readonly heartbeat_ms: number;
  /** How often a coordinator looks for a free lease. */
  readonly lease_look_ms: number;
  readonly worker_registration_ms: number;
  /** Of gateways and coordinators: only the reaper looks at it. */
  readonly registration_ms: number;
  /** Between two looks at what should be sent again or asked after. */
  readonly sweep_ms: number;
  /** First wait before a request is sent again; then doubled up to `resend_max_ms`. */
  readonly resend_ms: number;
  readonly resend_max_ms: number;
  /** A stream is given up after so long with neither a chunk nor a sign that its execution runs. */
  readonly stream_quiet_ms: number;
  /** A batch out for so long is asked after. */
  readonly probe_batch_ms: number;
  /** Each worker is asked what it holds so often. */
  readonly probe_worker_ms: number;
  /** How often a coordinator looks what its repositories hold. */
  readonly repository_look_ms: number;
  /** A job's lock, renewed three times as often; its owner's death frees the job so late. */
  readonly job_lock_ms: number;
  /** How often jobs whose lock ran out are looked for. */
  readonly job_stalled_ms: number;
  /** How often a model's owner keeps what it has counted; its death loses what was counted since. */
  readonly statistics_keep_ms: number;
}

const DEFAULT_TIMING: Timing = {
  lease_ms: 2_000,
  margin_ms: 200,
  heartbeat_ms: 500,
  lease_look_ms: 250,
  worker_registration_ms: 2_500,
  registration_ms: 4_000,
  sweep_ms: 500,
  resend_ms: 1_000,
  resend_max_ms: 4_000,
  stream_quiet_ms: 3_000,
  probe_batch_ms: 1_000,
  probe_worker_ms: 2_000,
  repository_look_ms: 5_000,
  job_lock_ms: 2_500,
  job_stalled_ms: 1_000,
  statistics_keep_ms: 1_000,
};

/** The defaults, stretched by `scale`. */
export function timing(scale = 1): Timing {
  return Object.fromEntries(
    Object.entries(DEFAULT_TIMING).map(([name, ms]) => [name, ms * scale]),
  ) as unknown as Timing;
}
