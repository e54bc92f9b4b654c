/** The language of the page. English comes with it; another one is a file that is loaded when it is chosen. */
import {english, type Word} from './messages';

const STORED = 'interlock.language';

export type Language = 'en' | 'ko';
type Sentences = typeof import('./korean');

let korean: Sentences | null = null;

function preferred(): Language {
  const stored = localStorage.getItem(STORED);
  if (stored === 'en' || stored === 'ko') return stored;
  return navigator.language.startsWith('ko') ? 'ko' : 'en';
}

class Words {
  language = $state<Language>('en');

  /** Return the message of a key in the selected language. */
  get(word: Word): string {
    return this.of('page', english)[word];
  }

  /** The sentences of a part of the page in the language of this reader. */
  of<Part extends keyof Sentences>(part: Part, sentences: Sentences[Part]): Sentences[Part] {
    return this.language === 'ko' && korean !== null ? korean[part] : sentences;
  }

  /** Load this reader's language. Without its file the page is in English, rather than empty. */
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

export const words = new Words();
