# frozen_string_literal: true

require_relative "../locking/kind"
require_relative "../survey/key"

module Plock
  module CLI
    # Finds the key that the user means. The user gives the key's name and the kind of lock, or the
    # store key that `plock list` shows. A store key contains only a digest of the name.
    module Locating
      KINDS = Locking::Kind::ALL.to_h { |kind| [kind.name.to_s.tr("_", "-"), kind] }.freeze
      private_constant :KINDS

      private

      def kind_option(options)
        options.on(
          "--kind KIND", "what KEY is locked as: lock (by default), semaphore, read-write, once"
        ) { |text| @kind = text }
      end

      # @return [Plock::Status] an argument for {Locking#status} and {Locking#break}
      def target
        kind =
          KINDS.fetch(@kind || "lock") do
            raise usage("there is no kind #{@kind}#{UsageError.suggestion(@kind, KINDS.keys)}")
          end
        return Plock::Status.new(nil, @key, nil) if Survey::Key.parse(@key)

        Plock::Status.new(@key, store.config.store_key(@key, kind), nil)
      end
    end
  end
end
