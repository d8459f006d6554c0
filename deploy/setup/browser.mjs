import { ensureProgram } from './system-package.mjs';

/** Programs of which any will do for the tests of pages. */
export const BROWSERS = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/**
 * A Chromium for the tests of pages: the one on PATH; else installed where the caller may. Only tests need it.
 *
 * @returns {Promise<{ missing?: string }>} `missing` says what there is to install
 */
export async function ensureBrowser({ mayInstall }) {
  const found = await ensureProgram({
    names: BROWSERS,
    packages: { 'apt-get': 'chromium', dnf: 'chromium', apk: 'chromium' },
    title: 'Chromium, for the tests of pages',
    log: 'browser',
    mayInstall,
  });
  if (found.program !== undefined) return {};
  const { paste, failure } = found;
  const why = failure === undefined ? 'no Chromium is on PATH' : `Chromium could not be installed (${failure})`;
  return { missing: paste === undefined ? why : `${why}; paste: ${paste}` };
}
