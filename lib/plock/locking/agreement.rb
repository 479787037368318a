# frozen_string_literal: true

require_relative "../errors"
require_relative "fingerprint"

module Plock
  module Locking
    # If processes hash the keys of one namespace with different secrets, they lock different keys,
    # and none of them excludes the others. So a store keeps a {Fingerprint} of the secret for each
    # namespace. The first process writes the fingerprint. Each store object that is opened later
    # compares the fingerprint of its own secret with the kept one, at its first use.
    #
    # A store that can do `:compares_secrets` has `keep_note(name, note, replace)`. It writes the
    # note if the name has none yet, or if `replace` is true. It returns the note that is now kept
    # under the name, or nil. An empty note is never written, so passing one only reads.
    module Agreement
      # The name of the note. The namespace follows it, if there is one.
      NOTE = "plock:1:secret"
      LOOK = ""
      private_constant :NOTE, :LOOK

      # Makes this store's secret the secret of its namespace, in place of the previous one. First
      # stop all processes that use the namespace, because processes with the new secret do not
      # see the locks made with the previous one.
      #
      # @param force [Boolean] replace the secret even while keys of the namespace are held, or if
      #   the store cannot list the held keys?
      # @return [Boolean] has the kept fingerprint changed? True also if there was none.
      # @raise [ConfigurationError] keys of the namespace are held
      # @raise [UnsupportedError] the store keeps no fingerprints, or cannot list the held keys
      # @raise [Error] the request to the store failed
      def replace_secret(force: false)
        unless can?(:compares_secrets)
          raise UnsupportedError, "#{url} keeps no fingerprint of the secret"
        end

        refuse_while_held unless force
        before = kept_fingerprint
        keep_note(note_name, Fingerprint.note(config.fingerprint), true)
        agreed
        before.nil? || before.value != config.fingerprint
      end

      # @api private
      # @return [Fingerprint, nil] the kept fingerprint; nil: there is none, or it is unreadable
      def kept_fingerprint
        note = keep_note(note_name, LOOK, false)
        note && Fingerprint.read(note)
      end

      # @api private
      # @return [Fingerprint, nil] the kept fingerprint if it belongs to a different secret, else
      #   nil
      def other_fingerprint
        return unless can?(:compares_secrets)

        kept = kept_fingerprint
        kept unless config.agrees?(kept)
      end

      private

      # Compares the secret with the one that other processes use. This costs one request, at the
      # store's first use.
      def agree
        return agreed unless can?(:compares_secrets)

        note = keep_note(note_name, Fingerprint.note(config.fingerprint), false)
        return if note.nil? # the store cannot keep a note at the moment

        kept = Fingerprint.read(note)
        raise other_secret(kept) unless kept&.value == config.fingerprint

        agreed
      end

      def agreed
        @agreed = true
      end

      def note_name = config.namespace ? "#{NOTE}:#{config.namespace}" : NOTE

      def other_secret(kept)
        ConfigurationError.new(<<~TEXT.tr("\n", " ").strip, code: :other_secret)
          #{own_secret} is not the one that others use in #{config.described} of #{url}
          (#{kept || "unreadable"}): they would lock different keys, and both run.
          #{suspicion(kept)} `plock doctor` shows both. Correct the wrong one. To change the secret
          on purpose, stop all processes, run `plock secret --replace`, and start them.
        TEXT
      end

      def own_secret
        return "no secret" unless config.secret?

        "the secret of this process (#{config.described_secret})"
      end

      def suspicion(kept)
        if !config.secret?
          "Probably this process lacks the secret: set #{StoreConfig::SECRET_VARIABLE} as the " \
            "others have it."
        elsif kept&.none?
          "Probably a process without the secret, such as a cron line, came first."
        else
          "Probably one of the two is out of date."
        end
      end

      def refuse_while_held
        unless can?(:list)
          raise UnsupportedError,
                "#{url} cannot list what is held: " \
                "stop all processes, and replace the secret by force"
        end

        held = each_held.first or return
        raise ConfigurationError.new(
          "#{config.described} of #{url} is in use (#{held.store_key} is #{held}): " \
            "stop all processes before the secret is replaced",
          code: :held
        )
      end
    end
  end
end
