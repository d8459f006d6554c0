export { type BlobFiles, type OpenedBlobFiles, openBlobFiles } from './blob-files.ts';
export { type BlobOptions, INLINE_BYTES_MAX } from './blob-store.ts';
export type { BulkChunk, BulkEnd, BulkRecord, BulkState, BulkStore, LineResult, NewBulk } from './bulk.ts';
export { BULK_ENDS } from './bulk.ts';
export { type BulkStoreOptions, createBulkStore } from './bulk-redis.ts';
export { changeValue, type SharedValues } from './change-value.ts';
export { createCombinedTransport } from './combined-transport.ts';
export type {
  Directory,
  DirectoryChange,
  HostingMemory,
  HostingRecord,
  MainRole,
  ProcessRecord,
  Role,
} from './directory.ts';
export type { SharedValue } from './directory-values.ts';
export type {
  JobCounts,
  JobListing,
  JobListPlace,
  JobNews,
  JobQueues,
  JobState,
  JobTaker,
  NewJob,
  ResultPayloads,
  StoredJob,
  TakenJob,
  TakeOptions,
} from './jobs.ts';
export { createJobQueues, type JobQueuesOptions } from './jobs-bullmq.ts';
export type { Deliveries, Delivery, WebhookMessage } from './jobs-deliveries.ts';
export type { DeliveryTaker, Sent } from './jobs-delivery-taker.ts';
export { checkJobsDurability, type JobsDurability } from './jobs-durability.ts';
export type { DeadLetter, DeadLetters, ReplayOutcome } from './jobs-letters.ts';
export { newJobId, parsePublicJobId, publicJobId, type QueueKind } from './jobs-names.ts';
export type { JobPayloads } from './jobs-payloads.ts';
export type {
  JournalBounds,
  JournalReader,
  JournalStore,
  JournalWriter,
  NewEnd,
  NewStep,
  RecordingHead,
  RecordingQuery,
} from './journal.ts';
export { parseRecordingId, recordingId } from './journal-names.ts';
export { createJournalStore, type JournalStoreOptions } from './journal-redis.ts';
export type { KeptTotal, KeptTotals } from './kept-totals.ts';
export { createLocalDirectory } from './local-directory.ts';
export { createLocalResources } from './local-resources.ts';
export { createLocalTransport } from './local-transport.ts';
export { createLocalUploads } from './local-uploads.ts';
export type { LargeTensors, Mailbox, MailboxLimits, MailboxOptions, RefusalReason, Transport } from './mailbox.ts';
export { messageBytes } from './message-bytes.ts';
export { checkJobKeys, checkRedis, type RedisCheck, type RedisCheckOptions } from './redis-checks.ts';
export {
  connectRedis,
  isRefusal,
  type RedisClient,
  type RedisConnection,
  type RedisConnector,
  type RedisConnectorOptions,
} from './redis-connection.ts';
export { createRedisDirectory, type RedisDirectory, type RedisDirectoryOptions } from './redis-directory.ts';
export { type RedisKeys, redisKeys, redisKeysMarkdown } from './redis-keys.ts';
export type { RedisMemory } from './redis-memory.ts';
export { createRedisResources, type RedisResourcesOptions } from './redis-resources.ts';
export { createRedisTotals, type RedisTotalsOptions } from './redis-totals.ts';
export { createRedisTransport, type RedisTransport, type RedisTransportOptions } from './redis-transport.ts';
export { createRedisUploads, type RedisUploadsOptions } from './redis-uploads.ts';
export { firstRanked } from './rendezvous.ts';
export type { ResourceClaim, ResourceMember, SharedResources } from './shared-resources.ts';
export { type Timing, timing } from './timing.ts';
export type { Uploads } from './uploads.ts';
