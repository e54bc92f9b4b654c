/** The language of the page and its messages. English is bundled; another language is loaded when it is selected. */
import {english, type MessageKey} from './messages';

const STORED = 'interlock.language';

export type Language = 'en' | 'ko';
type Messages = typeof import('./korean');

let korean: Messages | null = null;

function preferred(): Language {
  const stored = localStorage.getItem(STORED);
  if (stored === 'en' || stored === 'ko') return stored;
  return navigator.language.startsWith('ko') ? 'ko' : 'en';
}

class I18n {
  language = $state<Language>('en');

  /** Return the message of a key in the selected language. */
  get(word: MessageKey): string {
    return this.of('page', english)[word];
  }

  /** Return the messages of a part of the page in the selected language. */
  of<Part extends keyof Messages>(part: Part, sentences: Messages[Part]): Messages[Part] {
    return this.language === 'ko' && korean !== null ? korean[part] : sentences;
  }

  /** Load the preferred language. If its file cannot be loaded, the page is in English. */
  begin(): Promise<boolean> {
    return this.#use(preferred());
  }

  async toggle(): Promise<void> {
    if (await this.#use(this.language === 'en' ? 'ko' : 'en')) localStorage.setItem(STORED, this.language);
  }

  async #use(language: Language): Promise<boolean> {
    try {
      if (language === 'ko') korean ??= await import('./korean');
    } catch {
      return false;
    }
    this.language = language;
    document.documentElement.lang = language;
    return true;
  }
}

export const i18n = new I18n();
