import { NereidError } from '@nereid/protocol';

export type CloudKind = 's3' | 'gs' | 'as';

/** Where a repository in the cloud is. */
export interface CloudPlace {
  readonly kind: CloudKind;
  /** As it was given, without a slash at its end. */
  readonly url: string;
  /** Bucket, or container of an Azure account. */
  readonly bucket: string;
  /** Keys of the repository's objects begin so; ends with a slash unless it is ''. */
  readonly prefix: string;
  /** Of a server of one's own, such as `http://localhost:9000`; undefined for the cloud's. */
  readonly endpoint: string | undefined;
  /** Azure's storage account, or the host of one in another cloud; '' for the others. */
  readonly account: string;
}

const SCHEMES: Readonly<Record<string, CloudKind>> = { s3: 's3', gs: 'gs', as: 'as' };

const FORMS: Readonly<Record<CloudKind, string>> = {
  s3: 's3://<bucket>/<path> or s3://[https://]<host>:<port>/<bucket>/<path>',
  gs: 'gs://<bucket>/<path>',
  as: 'as://<account>/<container>/<path> or as://[https://]<host>:<port>/<account>/<container>/<path>',
};

/** Whether a repository is named by a cloud's URL. */
export function isCloudPlace(given: string): boolean {
  return schemeOf(given) !== undefined;
}

function schemeOf(given: string): CloudKind | undefined {
  return SCHEMES[/^([a-z0-9]+):\/\//.exec(given)?.[1] ?? ''];
}

/** Undefined for what names a local folder. Throws INVALID_ARG for a cloud's URL that lacks a part. */
export function cloudPlace(given: string): CloudPlace | undefined {
  const kind = schemeOf(given);
  if (kind === undefined) return undefined;
  const { endpoint, parts } = splitUrl(given.slice(kind.length + '://'.length), kind);
  const [account, bucket, ...path] = kind === 'as' ? parts : ['', ...parts];
  if (!account && kind === 'as') throw wrong(given, kind, 'names no account');
  if (!bucket) throw wrong(given, kind, `names no ${bucketWord(kind)}`);
  return {
    kind,
    url: given.replace(/\/+$/, ''),
    bucket,
    prefix: path.length === 0 ? '' : `${path.join('/')}/`,
    endpoint,
    account: account ?? '',
  };
}

/** What errors call a bucket. */
export function bucketWord(kind: CloudKind): string {
  return kind === 'as' ? 'container' : 'bucket';
}

/** The endpoint, if it begins with one (Triton: a host with a port, http unless it says https), and what is between slashes. */
function splitUrl(rest: string, kind: CloudKind): { endpoint: string | undefined; parts: string[] } {
  const segments = (text: string) => text.split('/').filter((part) => part !== '');
  const [, scheme, host, path] = /^(https?:\/\/)?([^/]+)(.*)$/.exec(rest) ?? [];
  const isEndpoint = scheme !== undefined || /:\d+$/.test(host ?? '');
  if (kind === 'gs' || !isEndpoint) return { endpoint: undefined, parts: segments(rest) };
  return { endpoint: `${scheme ?? 'http://'}${host}`, parts: segments(path ?? '') };
}

function wrong(given: string, kind: CloudKind, what: string): NereidError {
  return new NereidError('INVALID_ARG', `the model repository '${given}' ${what}: write ${FORMS[kind]}`, {
    field: '--model-repository',
  });
}
