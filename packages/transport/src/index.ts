export type { Directory, DirectoryChange, ProcessRecord, Role } from './directory.ts';
export { createLocalDirectory } from './local-directory.ts';
export { createLocalTransport } from './local-transport.ts';
export type { Mailbox, MailboxLimits, RefusalReason, Transport } from './mailbox.ts';
