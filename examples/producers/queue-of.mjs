/** Where the jobs of a model are added: what `new Queue(name, { connection, prefix })` takes. */
export async function queueOf(url, model) {
  const response = await fetch(`${url}/v2/models/${model}/jobs/queue`);
  const { error, name, prefix, redis_url: redisUrl } = await response.json();
  if (error !== undefined) throw new Error(error);
  // The Redis of `nereid serve` is a socket. The URL of another one has no password: give yours.
  const connection = redisUrl.startsWith('unix://')
    ? { path: decodeURIComponent(redisUrl.slice('unix://'.length)) }
    : { url: redisUrl };
  return { name, prefix, connection };
}
