# frozen_string_literal: true

require_relative "../aside"
require_relative "connection"

module Plock
  class Store
    class Database
      # What the two drivers of MySQL and MariaDB have in common.
      #
      # @api private
      class Mysql < Connection
        # What goes away when it is tried again: a lock that was waited for too long, a deadlock, a row that has changed meanwhile.
        CONFLICTS = [1205, 1213, 1020].freeze

        FORBIDDEN = [1044, 1142, 1143, 1227].freeze
        MISSING = 1146

        # The server is going down, has too many connections, is read-only …
        UNAVAILABLE = [1021, 1040, 1041, 1053, 1077, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1290, 1317, 1836, 1927, 3024].freeze

        # Where the server is in the middle of something, it is told to stop: else it finds out by and by that nobody listens.
        def close
          kill if @busy
          super
        end

        private

        def kill
          id, another = server_id, @another
          Aside.start do
            other = another.call
            other.execute("KILL #{id}")
          ensure
            other&.disconnect!
          end
        end

        # Neither driver binds without a round trip more.
        def filled(sql, binds)
          sql.gsub(/\$(\d+)/) { literal(binds[$1.to_i - 1]) }
        end

        def literal(value)
          case value
          when nil then "NULL"
          when Integer then value.to_s
          else "'#{@raw.escape(value)}'"
          end
        end

        def failure(error)
          number = number_of(error)
          case number
          when *CONFLICTS then again(error)
          when *FORBIDDEN then forbidden(error)
          when MISSING then missing_table(error)
          when nil, 0, *UNAVAILABLE, 2000.. then unavailable(error)
          else ProtocolError.new("#{words(error)} (#{number})", code: :server_error)
          end
        end

        # A number of the server's own, not one of the client's.
        def answered?(error)
          number_of(error)&.between?(1000, 1999) || false
        end
      end
    end
  end
end
