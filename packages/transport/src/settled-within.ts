/** Waits until the promise is settled, either way, but no longer than that. */
export async function settledWithin(ms: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([Promise.allSettled([promise]), late]);
  clearTimeout(timer);
}
