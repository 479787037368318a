# frozen_string_literal: true

require "json"
require "socket"
require "uri"

module Support
  # The part of a Parse Server that finds and creates objects. It has no schemas, permissions or
  # unique indexes. It runs in the process that made it, with a thread for each connection.
  #
  #   server = ParseServer.new
  #   server.url       # for Parse.setup(server_url:)
  #   server.objects   # all created objects, as {"className" => …, "objectId" => …, …}
  class ParseServer
    CLASSES = %r{\A/parse/classes/(?<name>\w+)/?(?:\?(?<query>\S*))?\z}

    GATHERING_S = 10

    attr_reader :objects

    def initialize
      @listener = TCPServer.new("127.0.0.1", 0)
      @lock = Mutex.new
      @objects = []
      @asked = 0
      @answered = ConditionVariable.new
      @threads = [Thread.new { serve }]
    end

    def url = "http://127.0.0.1:#{@listener.addr[1]}/parse"

    # From now on, searches wait until this many have arrived, and are then answered together. So
    # no search finds an object that another caller creates afterwards.
    def gather(number)
      @together = number
    end

    def stop
      @listener.close
      @threads.each(&:kill).each(&:join)
    end

    private

    def serve
      loop do
        connection = @listener.accept
        @threads << Thread.new { converse(connection) }
      end
    rescue IOError
      nil # the server was closed
    end

    def converse(connection)
      while (line = connection.gets)
        verb, path, = line.split
        headers = {}
        while (line = connection.gets) && line != "\r\n"
          name, value = line.chomp.split(": ", 2)
          headers[name.downcase] = value
        end
        body = connection.read(headers.fetch("content-length", "0").to_i)
        reply(connection, *answer(verb, path, body))
      end
    rescue SystemCallError, IOError
      nil # the client is gone
    ensure
      connection.close
    end

    def answer(verb, path, body)
      place = CLASSES.match(path) or
        return 404, { code: 119, error: "#{verb} #{path} is not served here" }
      parameters = URI.decode_www_form(place[:query].to_s).to_h
      parameters.update(JSON.parse(body)) unless body.empty?
      if verb == "GET" || parameters.delete("_method") == "GET"
        return 200, { results: find(place[:name], parameters) }
      end

      [201, create(place[:name], parameters)]
    end

    def find(name, parameters)
      where = parameters["where"] || {}
      where = JSON.parse(where) if where.is_a?(String)
      @lock.synchronize do
        found =
          @objects.select do |object|
            object["className"] == name && where.all? { |field, value| object[field] == value }
          end
        await_others if @together
        found
      end
    end

    def await_others
      @asked += 1
      group = @asked.fdiv(@together).ceil * @together
      @answered.broadcast
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + GATHERING_S
      while @asked < group &&
            (left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)).positive?
        @answered.wait(@lock, left)
      end
    end

    def create(name, fields)
      @lock.synchronize do
        now = Time.now.utc.strftime("%FT%T.%LZ")
        object = {
          "className" => name, **fields, "objectId" => format("o%09d", @objects.size),
          "createdAt" => now, "updatedAt" => now
        }
        @objects << object
        object.slice("objectId", "createdAt")
      end
    end

    def reply(connection, status, content)
      body = JSON.generate(content)
      connection.write("HTTP/1.1 #{status} -\r\nContent-Type: application/json\r\n" \
                       "Content-Length: #{body.bytesize}\r\n\r\n#{body}")
    end
  end
end
