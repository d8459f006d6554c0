import type { AliasService } from './aliases.ts';
import type { LogSettingsService } from './log-settings.ts';
import type { Repository } from './repository.ts';
import type { TraceSettings } from './trace-settings.ts';

/** What both doors serve beside models. */
export interface Services {
  readonly repository: Repository;
  readonly aliases: AliasService;
  readonly logSettings: LogSettingsService;
  readonly traceSettings: TraceSettings;
}
