# frozen_string_literal: true

require "monitor"
require "openssl"
require_relative "supervisor"

module Support
  # Certificates for the suite. Each is made at its first use, in the suite's folder, and takes a
  # few ms, because the keys are elliptic-curve keys.
  #
  #   Certificates.server      # signed by ca; names localhost, 127.0.0.1 and ::1
  #   Certificates.wrong_name  # signed by ca; names another host
  #   Certificates.expired     # signed by ca, until yesterday
  #   Certificates.stranger    # signed by an authority that is not ca
  #   Certificates.client      # signed by ca, for clients
  #   Certificates.ca          # has cert_file only; ca_path holds it under its hashed name
  module Certificates
    # The paths of a certificate and its key, both in PEM.
    Pair = Struct.new(:cert_file, :key_file)

    DAY = 86_400
    SERVER_NAMES = "DNS:localhost,IP:127.0.0.1,IP:::1"

    # Several threads may start servers at the same time.
    LOCK = Monitor.new

    class << self
      def ca = once(:ca) { Pair.new(write("ca.crt", authority.certificate)) }

      # A folder in the form that OpenSSL expects for ca_path.
      def ca_path
        once(:ca_path) do
          File.join(Supervisor.folder, "ca").tap do |path|
            Dir.mkdir(path)
            name = format("%08x.0", authority.certificate.subject.hash)
            File.write(File.join(path, name), authority.certificate.to_pem)
          end
        end
      end

      def server = pair("server", names: SERVER_NAMES)

      def wrong_name = pair("wrong_name", names: "DNS:elsewhere.example")

      def expired = pair("expired", names: SERVER_NAMES, until_time: Time.now - DAY)

      def stranger = pair("stranger", -> { Authority.new("Another CA") }, names: SERVER_NAMES)

      def client = pair("client", usage: "clientAuth")

      private

      def once(name) = LOCK.synchronize { (@made ||= {})[name] ||= yield }

      def authority = once(:authority) { Authority.new("Suite CA") }

      def pair(name, signer = method(:authority), **options)
        once(name) do
          key = OpenSSL::PKey::EC.generate(CURVE)
          certificate = signer.call.issue(name, key, **options)
          Pair.new(write("#{name}.crt", certificate), write("#{name}.key", key))
        end
      end

      def write(name, content)
        File.join(Supervisor.folder, name).tap { |path| File.write(path, content.to_pem) }
      end
    end

    CURVE = "prime256v1"

    # An authority that signs certificates, including its own.
    class Authority
      attr_reader :certificate

      def initialize(name)
        @key = OpenSSL::PKey::EC.generate(CURVE)
        @certificate = build(name, @key, Time.now + DAY) do |factory|
          [factory.create_extension("basicConstraints", "CA:TRUE", true),
           factory.create_extension("keyUsage", "keyCertSign,cRLSign", true)]
        end
      end

      def issue(name, key, names: nil, usage: "serverAuth", until_time: Time.now + DAY)
        build(name, key, until_time) do |factory|
          [factory.create_extension("basicConstraints", "CA:FALSE", true),
           factory.create_extension("extendedKeyUsage", usage),
           (factory.create_extension("subjectAltName", names) if names)].compact
        end
      end

      private

      def build(name, key, until_time)
        certificate = OpenSSL::X509::Certificate.new
        certificate.version = 2
        certificate.serial = OpenSSL::BN.rand(64)
        certificate.subject = OpenSSL::X509::Name.new([["CN", name]])
        certificate.issuer = @certificate ? @certificate.subject : certificate.subject
        certificate.public_key = key
        certificate.not_before = Time.now - (2 * DAY)
        certificate.not_after = until_time
        factory = OpenSSL::X509::ExtensionFactory.new(@certificate || certificate, certificate)
        yield(factory).each { |extension| certificate.add_extension(extension) }
        certificate.sign(@key, "SHA256")
      end
    end
  end
end
