export type { Directory, DirectoryChange, ProcessRecord, Role } from './directory.ts';
export type { Mailbox, MailboxLimits, RefusalReason, Transport } from './mailbox.ts';
